"""All operations that MNN trains here, by torch's names."""

from __future__ import annotations

from collections.abc import Mapping

from ampere.errors import ModelError
from ampere.mnn.operations import (
    activation,
    attention,
    convolution,
    elementwise,
    embedding,
    linear,
    normalisation,
    pooling,
    recurrent,
    shape,
)
from ampere.mnn.operations.base import Operation
from ampere.programs.program import Step

FAMILIES = (
    convolution,
    linear,
    normalisation,
    pooling,
    activation,
    attention,
    recurrent,
    embedding,
    elementwise,
    shape,
)
BY_NAME: Mapping[str, Operation] = {
    name: operation
    for family in FAMILIES
    for operation in family.OPERATIONS
    for name in operation.names
}


def find_operation(step: Step) -> Operation:
    """The operation of a step.

    Raises:
        ModelError: There is none; it names the operation and the layer.
    """
    found = BY_NAME.get(step.op.rpartition(".")[2])
    if found is None:
        raise ModelError(
            f"mnn cannot train {step.where}: it has no translation (docs/frameworks.md lists them)"
        )
    return found
