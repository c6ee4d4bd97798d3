"""The kind of a structure: a name that people can read, and the numbers inside."""

from __future__ import annotations

from collections.abc import Sequence

from ampere.core.layers import CHECKPOINTED, LayerKind, Role
from ampere.core.program.structure import Call, Structure
from ampere.core.training import Training
from ampere.pytorch.modules.base import ModuleRecord, Place
from ampere.pytorch.modules.registry import record_named, record_of_function

LONGEST = 120  # letters of a name, before only what has weights is written out


def describe(
    structure: Structure, role: Role, training: Training, checkpointed: bool = False
) -> LayerKind:
    """Name a structure and list its attributes; what is checkpointed runs forward twice."""
    words, heavy = [], []
    attributes = training.attributes(role)
    if checkpointed:
        attributes[CHECKPOINTED] = True
    for call in structure.calls:
        word = _word(call.op)
        if call.op in ("parameter", "buffer"):
            continue
        kernel = call.arguments.get("kernel_size")
        if kernel is not None:
            word += "x".join(map(str, kernel if isinstance(kernel, tuple) else [kernel]))
        words.append(word)
        if _has_weights(call):
            heavy.append(call)
    if len(heavy) == 1:
        record = _record(heavy[0])
        attributes.update(record.naming.attributes(heavy[0].arguments) if record else {})
    positions = [size for size in structure.input if isinstance(size, int)]
    if len(structure.input) == 3 and len(positions) > 1:
        attributes["height"], attributes["width"] = positions[-2:]
    elif len(structure.input) == 2:
        attributes["length"] = positions[-1] if positions else 0
    elif structure.inputs[0].dtype == "int64":
        attributes["length"] = structure.input[0]
    operation = "+".join(_collapse([_word(call.op) for call in heavy])) or "+".join(words[:3])
    marks = " frozen" if heavy and all(call.frozen for call in heavy) else ""
    marks += " checkpointed" if checkpointed else ""
    where = ",".join("x".join(map(str, port.shape)) for port in structure.inputs)
    label = "+".join(_collapse(words))
    if len(label) > LONGEST:
        label = f"{operation}+{len(words) - len(heavy)} more"
    trained = f"b{training.batch_size} {training.precision} {training.optimizer}"
    if "loss" in attributes:
        trained += f" {attributes['loss']}"
    name = f"{role.value} {label} @{where} {trained}{marks} #{structure.digest}"
    return LayerKind(name, role, operation, attributes, structure)


def _has_weights(call: Call) -> bool:
    record = _record(call)
    is_core = record is not None and record.place is Place.CORE
    return is_core or call.op.rpartition(".")[2] == "addmm"  # a linear layer with its bias


def _record(call: Call) -> ModuleRecord | None:
    home, _, name = call.op.rpartition(".")
    return record_of_function(name) if home else record_named(name)


def _word(op: str) -> str:
    name = op.rpartition(".")[2].strip("_")
    return {"getitem": "select", "iadd": "add"}.get(name.lower(), name.lower())


def _collapse(words: Sequence[str]) -> list[str]:
    """Equal words counted, in order of first appearance."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return [word if n == 1 else f"{n}×{word}" for word, n in counts.items()]
