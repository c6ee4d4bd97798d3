"""Quick stand-ins on the meta device for operations whose shapes torch works out slowly.

Normalisation and recurrent layers are decomposed into dozens of small operations there, which took
half of the time of reading a model. Shapes and gradients are all that is needed of them; where
their FLOPs are counted, only normalisation, which has none, is replaced. The stand-ins themselves
are in the records of the modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ampere.pytorch.modules.registry import record_of, record_of_function


class QuickNorms(TorchFunctionMode):
    """Normalisation by its quick stand-in, for tensors on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return quick(func, args)(*args, **(kwargs or {}))


def quick(func: Callable[..., Any], args: Any) -> Callable[..., Any]:
    """What to run instead of a function: its stand-in, where it has one and the input is meta."""
    stand_in = _stand_in(func)
    if stand_in is None or not args or not args[0].is_meta:
        return func

    def run(*args: Any, **options: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return stand_in(*args, **options)

    return run


def _stand_in(func: Callable[..., Any]) -> Callable[..., Any] | None:
    name = getattr(func, "__name__", "")
    record = record_of_function(name)
    if record is None or record.shortcut is None or getattr(functional, name, None) is not func:
        return None
    return record.shortcut.functions.get(name)


def run_quickly(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A standard module's forward, or its stand-in where the input is meta."""
    record = record_of(module)
    shortcut = None if record is None else record.shortcut
    if shortcut is None:
        return forward

    def run(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            result = shortcut.forward(module, args, kwargs)
            if result is not None:
                return result
        return forward(*args, **kwargs)

    return run
