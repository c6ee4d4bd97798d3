"""Shadows: values of what follows from a model's inputs alone, beside a run on the meta device.

Models that look at values mostly look at masks and positions, which are made of ids and labels
without any weight. These are small: each function whose tensors all have a value is run once more
with these values, and where the model looks at one it sees it. What depends on weights has no
shadow, and a model that looks at that has to be run for real.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ampere.core.program.trees import leaves, map_leaves
from ampere.pytorch.work.operations import works_in_place

MOST_BYTES = 2**28  # of all shadows: masks of long sequences, not whole models


class Shadows:
    """Values of tensors of the meta device, as far as they are known."""

    def __init__(self) -> None:
        # With the tensors themselves: an id is only unique while its object lives.
        self._values: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._unknown: set[int] = set()  # storages into which something without a shadow went
        self._left = MOST_BYTES

    def know(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """From now on this tensor has this value."""
        self._values[id(tensor)] = tensor, value

    def look(self, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a function sees; where there is no shadow it fails, as it does on meta tensors."""
        with torch._C.DisableTorchFunction():
            if not self._knows((args, kwargs)):
                return run(*args, **kwargs)
            return run(*self._cast(args), **self._cast(kwargs))

    def follow(self, run: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Have a function do with values what it did without."""
        written = works_in_place(getattr(run, "__name__", "")) or "out" in kwargs
        made = _tensors(result)
        if not any(tensor.is_meta for tensor in [*made, *_tensors((args, kwargs))]):
            return  # it has values anyway
        if not self._knows((args, kwargs)):
            if written:
                self._forget((args, kwargs))
            return
        size = sum(tensor.numel() * tensor.element_size() for tensor in made)
        if size > self._left:
            return
        try:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                values = run(*self._cast(args), **self._cast(kwargs))
        except Exception:  # whatever does not run with values has none
            if written:
                self._forget((args, kwargs))
            return
        shadows = _tensors(values)
        if len(made) != len(shadows) or any(value.is_meta for value in shadows):
            return
        self._left -= size
        for tensor, value in zip(made, shadows, strict=True):
            self.know(tensor, value)

    def _knows(self, tree: Any) -> bool:
        return all(self._value(tensor) is not None for tensor in _tensors(tree))

    def _value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        if not tensor.is_meta:
            return tensor
        _, value = self._values.get(id(tensor), (None, None))
        return None if value is None or _storage(value) in self._unknown else value

    def _cast(self, tree: Any) -> Any:
        """The same arguments with values, on the device that has them."""

        def cast(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return self._value(leaf)
            device = isinstance(leaf, (str, torch.device)) and str(leaf) == "meta"
            return "cpu" if device else leaf

        return map_leaves(cast, tree)

    def _forget(self, tree: Any) -> None:
        """What was written into is not known any more, nor are other views of it."""
        for tensor in _tensors(tree):
            if tensor.is_meta and (value := self._value(tensor)) is not None:
                self._unknown.add(_storage(value))


def _tensors(tree: Any) -> list[torch.Tensor]:
    """All tensors inside nested arguments or results."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
