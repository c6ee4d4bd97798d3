"""Activations and dropout: every number stays at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ampere.core.graph.channels import Dims
from ampere.core.program.trees import Path
from ampere.pytorch.modules.base import (
    NO_PRODUCTS,
    PLAIN_NAMING,
    ModuleRecord,
    Place,
    Pruning,
    Sizing,
    without_parameters,
)

if TYPE_CHECKING:
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels


def _sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims:
    prelu: Any = call.module
    if prelu.num_parameters > 1:
        sizes["num_parameters"] = inputs[0][1]
    return inputs[0]


def _weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    prelu: Any = call.module
    if prelu.num_parameters > 1:
        follower.weight(call, "weight", 0, follower.entering(call, 1))
    return {(): dict(follower.labels_of(call.inputs[0]))}


RECORDS = (
    ModuleRecord(
        names=("PReLU",),
        functions=("prelu",),
        place=Place.FOLLOWING,
        parameters=True,
        whole=False,
        keeps_places=True,
        naming=PLAIN_NAMING,
        sizing=Sizing(
            rule=_sizes,
            entering=None,  # one slope for all channels, mostly
            makes=None,
            ids_below=None,
            weight_sides=(),
            literals={},
        ),
        shortcut=None,
        pruning=Pruning(rule=_weights, after_cut=None, batch_statistics=False),
        physics=NO_PRODUCTS,
    ),
    without_parameters(
        names=(
            *("ReLU", "ReLU6", "LeakyReLU", "ELU", "CELU", "SELU", "GELU", "SiLU", "Mish"),
            *("Sigmoid", "LogSigmoid", "Tanh", "Softplus", "Softsign", "Softmax", "LogSoftmax"),
            *("Hardswish", "Hardsigmoid", "Hardtanh"),
            *("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"),
        ),
        functions=(
            *("relu", "relu_", "leaky_relu", "gelu", "silu", "sigmoid", "tanh", "hardswish"),
            *("softmax", "dropout"),
        ),
        keeps_places=True,
    ),
)
