"""Linear layers, and bilinear ones, whose sizes stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ampere.core.graph.channels import Dims, Scaled, free, new, same
from ampere.core.program.sizes import Size
from ampere.core.program.terms import Term
from ampere.core.program.trees import Path
from ampere.core.types import Json
from ampere.pytorch.modules.base import (
    ModuleRecord,
    Naming,
    Physics,
    Place,
    Pruning,
    Sizing,
    signature_arguments,
    unresizable,
)

if TYPE_CHECKING:
    from ampere.pytorch.graph.literals import Template
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels


def _attributes(arguments: Mapping[str, Term]) -> dict[str, Json]:
    """How many inputs each channel that enters was flattened into."""
    entering = arguments.get("in_features")
    return {"flatten": entering.times} if isinstance(entering, Size) else {}


def _sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims:
    (x,) = inputs
    # Along positions, as in an MLP-Mixer, sizes do not belong to the channels.
    along_positions = isinstance(x[-1], int) and any(free(dim) for dim in x[:-1])
    out = shape[-1] if along_positions else new(shape[-1])
    sizes.update(in_features=x[-1], out_features=out)
    return (*x[:-1], out)


def name_weight_channels(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """A function that is given a weight: its first two sides are channels of a layer."""
    weight = inputs[1]
    for dim in weight[:2]:
        if isinstance(dim, Scaled):
            dim.root.named = True
    if len(inputs) > 2 and "transpose" not in call.op:  # the meta device ignores the bias
        same(weight[0], inputs[2][0])
    return call.args, call.kwargs


def _weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    linear: Any = call.module
    made = follower.made(call, "out_features", linear.out_features)
    follower.weight(call, "weight", 0, made)
    follower.weight(call, "weight", 1, follower.entering(call, -1))
    follower.weight(call, "bias", 0, made)
    return {(): follower.passed_on(call, -1, made)}


RECORDS = (
    ModuleRecord(
        names=("Linear",),
        functions=("linear",),
        place=Place.CORE,
        parameters=True,
        whole=False,
        keeps_places=False,
        naming=Naming(arguments=signature_arguments, attributes=_attributes),
        sizing=Sizing(
            rule=_sizes,
            entering=("in_features", -1),
            makes="out_features",
            ids_below=None,
            weight_sides=("out_features", "in_features"),
            literals={"linear": name_weight_channels},
        ),
        shortcut=None,
        pruning=Pruning(rule=_weights, after_cut=None, batch_statistics=False),
        physics=Physics(products=(("in_features", "out_features"),), per_position=False),
    ),
    unresizable(
        names=("Bilinear",),
        physics=Physics(products=(("in1_features", "in2_features"),), per_position=False),
    ),
)
