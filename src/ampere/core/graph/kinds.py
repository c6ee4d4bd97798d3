"""The kind of a structure: a name that people can read, and the numbers inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ampere.core.layers import CHECKPOINTED, LayerKind, Role
from ampere.core.program.sizes import Shape
from ampere.core.program.structure import Call, Structure
from ampere.core.training import Training
from ampere.core.types import Json

LONGEST = 120  # letters of a name, before only what has weights is written out


class Dictionary(Protocol):
    """What a framework's room knows of the calls of its structures."""

    def has_weights(self, call: Call) -> bool:
        """Whether a layer is made around such a call."""
        ...

    def attributes(self, call: Call) -> dict[str, Json]:
        """The numbers of a call that its kind shows."""
        ...

    def positions(self, shape: Shape) -> list[int]:
        """The sizes of a map that are no channels; its batch is left out already."""
        ...


def describe(
    structure: Structure,
    role: Role,
    training: Training,
    dictionary: Dictionary,
    checkpointed: bool = False,
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
        if dictionary.has_weights(call):
            heavy.append(call)
    if len(heavy) == 1:
        attributes.update(dictionary.attributes(heavy[0]))
    positions = dictionary.positions(structure.input)
    if len(structure.input) == 3 and len(positions) > 1:
        attributes["height"], attributes["width"] = positions[-2:]
    elif len(structure.input) == 2:
        attributes["length"] = positions[-1] if positions else 0
    elif structure.input and structure.inputs[0].dtype in ("int64", "int32"):
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


def _word(op: str) -> str:
    name = op.rpartition(".")[2].strip("_")
    return {"getitem": "select", "iadd": "add"}.get(name.lower(), name.lower())


def _collapse(words: Sequence[str]) -> list[str]:
    """Equal words counted, in order of first appearance."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return [word if n == 1 else f"{n}×{word}" for word, n in counts.items()]
