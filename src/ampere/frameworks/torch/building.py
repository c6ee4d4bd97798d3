"""Structures back to modules: a network of layers at any widths, ready to train."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ampere.errors import ModelError
from ampere.inputs import InputSpec
from ampere.layers import Call, Json, Layer, Size, Structure, shape_at

IN_PLACE = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")


def build(layers: Sequence[Layer]) -> nn.Module:
    """A network of these layers, one after the other, as PyTorch would have it."""
    pieces = [build_layer(layer) for layer in layers]
    return pieces[0] if len(pieces) == 1 else nn.Sequential(*pieces)


def build_layer(layer: Layer) -> nn.Module:
    """One layer at its widths."""
    structure = structure_of(layer)
    modules = {
        k: _module(call, layer.widths)
        for k, call in enumerate(structure.calls, start=1)
        if is_module(call)
    }
    chain = _as_chain(structure, modules)
    return chain if chain is not None else Piece(structure, modules, layer.widths)


def structure_of(layer: Layer) -> Structure:
    """The layer's structure; layers that came from a file of measurements have none."""
    if layer.kind.structure is None:
        raise ModelError(f"{layer.kind.name} has no structure to build it from")
    return layer.kind.structure


def input_of(layer: Layer) -> InputSpec:
    """What a network that begins with this layer is fed."""
    structure = structure_of(layer)
    shape = shape_at(structure.input, layer.widths)
    return InputSpec(shape, structure.input_dtype, structure.input_below)


def is_module(call: Call) -> bool:
    """Module calls carry the bare name of a class in `torch.nn`."""
    return "." not in call.op and call.op not in ("parameter", "buffer")


def works_in_place(call: Call) -> bool:
    """Whether a call may overwrite what it is given: `nn.ReLU(inplace=True)`, `x.relu_()`."""
    name = call.op.rpartition(".")[2]
    in_place = (name.endswith("_") and not name.endswith("__")) or name in IN_PLACE
    return in_place or bool(call.arguments.get("inplace") or call.options.get("inplace"))


def fill(tree: Json, widths: Mapping[str, int]) -> Any:
    """Arguments with symbolic sizes replaced by numbers, and lists by tuples."""
    if isinstance(tree, dict):
        if "size" in tree:
            return Size.parse(tree["size"]).at(widths)
        if "slice" in tree:
            return slice(*tree["slice"])
        if "ellipsis" in tree:
            return Ellipsis
        if "dtype" in tree:
            return getattr(torch, tree["dtype"])
        return {key: fill(part, widths) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(fill(part, widths) for part in tree)
    return tree


def fill_each(arguments: Mapping[str, Json], widths: Mapping[str, int]) -> dict[str, Any]:
    """Arguments by name; the names themselves mean nothing (`nn.Upsample` has one named size)."""
    return {name: fill(value, widths) for name, value in arguments.items()}


def _module(call: Call, widths: Mapping[str, int]) -> nn.Module:
    cls = getattr(nn, call.op, None)
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ModelError(f"{call.op} is not a module of torch")
    module: nn.Module = cls(**fill_each(call.arguments, widths))
    module.requires_grad_(not call.frozen)
    for name in call.frozen_parts:
        module.get_parameter(name).requires_grad_(False)
    return module


def _as_chain(structure: Structure, modules: Mapping[int, nn.Module]) -> nn.Module | None:
    """Layers that only call modules one after the other run as a user would write them."""
    for k, call in enumerate(structure.calls, start=1):
        if k not in modules or call.inputs != ({"value": k - 1},) or call.options:
            return None
    if structure.result != {"value": len(structure.calls)}:
        return None
    chain = list(modules.values())
    return chain[0] if len(chain) == 1 else nn.Sequential(*chain)


class Piece(nn.Module):
    """A layer with functions or branches inside: its calls, one after the other."""

    def __init__(
        self, structure: Structure, modules: Mapping[int, nn.Module], widths: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.held = nn.ModuleDict({str(k): module for k, module in modules.items()})
        self._steps: list[tuple[Callable[..., Any], Any, Any]] = []
        for k, call in enumerate(structure.calls, start=1):
            inputs, options = fill(call.inputs, widths), fill_each(call.options, widths)
            if k in modules:
                step: Callable[..., Any] = modules[k]
            elif call.op == "parameter":
                shape = fill(call.arguments["shape"], widths)
                parameter = nn.Parameter(torch.zeros(shape), requires_grad=not call.frozen)
                self.register_parameter(f"parameter_{k}", parameter)
                step = _Held(self, f"parameter_{k}")
            elif call.op == "buffer":
                self.register_buffer(
                    f"buffer_{k}", torch.ones(fill(call.arguments["shape"], widths))
                )
                step = _Held(self, f"buffer_{k}")
            else:
                step = find_function(call.op)
            self._steps.append((step, inputs, options))
        self._result = structure.result

    def forward(self, x: torch.Tensor) -> Any:
        """Run the calls."""
        values: list[Any] = [x]
        for step, inputs, options in self._steps:
            args = [_pick(values, part) for part in inputs]
            result = step(*args, **{k: _pick(values, v) for k, v in options.items()})
            values.append(args[0] if result is None else result)  # None: an assignment, in place
        return _pick(values, self._result)


class _Held:
    """A parameter or buffer looked up at each step, so that moving the module moves it too."""

    def __init__(self, owner: nn.Module, name: str) -> None:
        self.owner, self.name = [owner], name  # in a list: not a submodule of itself

    def __call__(self) -> Any:
        return getattr(self.owner[0], self.name)


def _pick(values: list[Any], tree: Any) -> Any:
    if isinstance(tree, dict) and "value" in tree:
        where = tree["value"]
        if isinstance(where, int):
            return values[where]
        found = values[where[0]]
        for step in where[1:]:
            found = found[step]
        return found
    if isinstance(tree, dict) and "device" in tree:
        return values[0].device
    if isinstance(tree, tuple):
        return tuple(_pick(values, part) for part in tree)
    return tree


def find_function(name: str) -> Callable[..., Any]:
    """A function of torch by its full name; only names that a trace can have written."""
    home, _, rest = name.partition(".")
    found: Any = torch
    for part in rest.split("."):
        found = getattr(found, part, None)
    if home != "torch" or not callable(found):
        raise ModelError(f"{name} is not a function of torch")
    function: Callable[..., Any] = found
    return function
