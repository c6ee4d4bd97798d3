"""Wrappers: what runs a model compiled or on several devices is left out, and said.

A model is read and metered as it is inside. Whether it is compiled, a device's settings say; how
many ranks train it, a job says.
"""

from __future__ import annotations

import warnings

from torch import nn

from ampere.errors import ModelError

NOTES = {
    "OptimizedModule": ("_orig_mod", "torch.compile", "--compile meters compiled models"),
    "DataParallel": ("module", "DataParallel", "one device has the whole batch"),
    "DistributedDataParallel": (
        "module",
        "DistributedDataParallel",
        "this is one rank, --ranks counts several",
    ),
}
SHARDED = ("FullyShardedDataParallel", "FSDPModule")


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside its wrappers; each is told in a warning.

    Raises:
        ModelError: Its parameters are sharded: no process has it whole.
    """
    while (found := _wrapper(model)) is not None:
        model, name, note = found
        warnings.warn(
            f"the model is wrapped in {name}: it is taken as it is inside ({note})", stacklevel=2
        )
    _refuse_sharded(model)
    return model


def _wrapper(model: nn.Module) -> tuple[nn.Module, str, str] | None:
    """What a wrapper holds, its name, and what becomes of what it does."""
    for kind in type(model).__mro__:
        if kind.__module__.startswith("torch.") and kind.__name__ in NOTES:
            attribute, name, note = NOTES[kind.__name__]
            inner = getattr(model, attribute, None)
            if isinstance(inner, nn.Module):
                return inner, name, note
    return None


def _refuse_sharded(model: nn.Module) -> None:
    """A shard of a layer is no layer: its sizes are not those that are trained."""
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    tensors = {type(parameter.data).__name__ for parameter in model.parameters()}
    if kinds & set(SHARDED) or "DTensor" in tensors:
        raise ModelError(
            f"{type(model).__name__} is sharded over ranks (FSDP), so no process has a whole layer:"
            " give the model as it is before, and the number of ranks as --ranks"
        )
