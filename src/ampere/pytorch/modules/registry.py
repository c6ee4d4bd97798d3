"""All records, and how they are found: by a module, by its class's name, by a function's name."""

from __future__ import annotations

from ampere.core.program.structure import Call
from ampere.pytorch.modules import (
    activation,
    attention,
    convolution,
    embedding,
    linear,
    normalisation,
    pooling,
    recurrent,
)
from ampere.pytorch.modules.base import ModuleRecord

FAMILIES = (
    activation,
    attention,
    convolution,
    embedding,
    linear,
    normalisation,
    pooling,
    recurrent,
)
RECORDS: dict[str, ModuleRecord] = {}  # by the name of a class of torch.nn
FUNCTIONS: dict[str, ModuleRecord] = {}  # by the name of a function that does the same
_STANDARD = "torch.nn.modules"


def register(record: ModuleRecord) -> None:
    """From now on this is what is known of its modules."""
    RECORDS.update(dict.fromkeys(record.names, record))
    FUNCTIONS.update(dict.fromkeys(record.functions, record))


for _family in FAMILIES:
    for _record in _family.RECORDS:
        register(_record)


def is_standard(module: object) -> bool:
    """Whether a module is torch's own, not a user's."""
    return type(module).__module__.startswith(_STANDARD)


def record_of(module: object) -> ModuleRecord | None:
    """The record of a module, or of the standard module that it is a kind of; None without one."""
    for cls in type(module).__mro__:
        if cls.__module__.startswith(_STANDARD) and cls.__name__ in RECORDS:
            return RECORDS[cls.__name__]
    return None


def record_named(op: str) -> ModuleRecord | None:
    """The record of a module call of a structure, by what it calls; None for other calls."""
    return RECORDS.get(op)


def record_of_function(name: str) -> ModuleRecord | None:
    """The record of the modules that do the same as a function of torch, by its last name."""
    return FUNCTIONS.get(name)


def holds_parameters(call: Call) -> bool:
    """Whether a call of a structure brings parameters of its own, trained or frozen."""
    record = record_named(call.op)
    if record is not None:
        return record.holds_parameters(call.arguments)
    return call.op == "parameter" or "bias" in call.arguments


def keeps_statistics(module: object) -> bool:
    """Whether a module keeps statistics of batches, as batch normalisation does."""
    record = record_of(module)
    return record is not None and record.pruning is not None and record.pruning.batch_statistics


def keeps_sizes(module: object) -> bool:
    """Whether nothing is known of how channels pass through a module, by its record or without."""
    record = record_of(module)
    return record is None or (record.parameters is True and record.sizing is None)


def missing_sizing(module: object) -> str:
    """What to say of a standard module that has parameters and keeps their sizes."""
    lacks = "no record" if record_of(module) is None else "a record without sizing and pruning"
    return (
        f"{type(module).__name__} has {lacks}, so its sizes stay as they are and it cannot be cut:"
        " add it in ampere/pytorch/modules (base.py says how)"
    )
