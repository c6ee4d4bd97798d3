"""Convolutions and transposed ones, plain, grouped and depthwise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ampere.core.graph.channels import Dim, Dims, Scaled, free, must_divide, new, pin, scale
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
)
from ampere.pytorch.modules.linear import name_weight_channels

if TYPE_CHECKING:
    from ampere.core.arrays import Ints
    from ampere.pytorch.graph.literals import Template
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels

GROUPS = 6  # the position of `groups` among the arguments of a function
_SHOWN = {"kernel_size": "kernel", "stride": "stride", "padding": "padding", "groups": "groups"}
_FUNCTIONS = (
    *("conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
)


def _attributes(arguments: Mapping[str, Term]) -> dict[str, Json]:
    """Kernel, stride, padding and groups; one number where all sides are equal."""
    attributes: dict[str, Json] = {}
    for argument, name in _SHOWN.items():
        value: Json = arguments.get(argument)
        if isinstance(value, tuple):
            value = value[0] if len(set(value)) == 1 else list(value)  # as a row of JSON has it
        if isinstance(value, int | list):
            attributes[name] = value
    return attributes


def _sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims | None:
    conv: Any = call.module
    x = inputs[0]
    if not len(shape) == len(x) > 2:
        return None
    across = any(free(dim) for dim in x[2:])  # it runs over channels, as in a gate
    out: Dim = conv.out_channels if across else new(conv.out_channels)
    channels = out
    if conv.groups > 1 and conv.groups == conv.in_channels and isinstance(x[1], Scaled):
        channels = scale(x[1], Fraction(conv.out_channels, conv.in_channels))  # depthwise
        sizes["groups"] = x[1]
    elif conv.groups > 1:
        must_divide(x[1], conv.groups)
        must_divide(out, conv.groups)
    sizes.update(in_channels=x[1], out_channels=channels)
    along = [  # a convolution over channels keeps their number
        dim if isinstance(dim, Scaled) and dim.size == size else size
        for dim, size in zip(x[2:], shape[2:], strict=True)
    ]
    pin([dim for dim, kept in zip(x[2:], along, strict=True) if isinstance(kept, int)])
    return (x[0], channels, *along)


def _literals(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """The channels of a weight that is given; groups follow a depthwise input."""
    name_weight_channels(call, inputs, behind)
    channels = inputs[0][1]
    if not isinstance(channels, Scaled) or not free(channels):
        return call.args, call.kwargs
    if call.kwargs.get("groups") == channels.size:
        return call.args, {**call.kwargs, "groups": channels}
    if len(call.args) > GROUPS and call.args[GROUPS] == channels.size:
        return (*call.args[:GROUPS], channels, *call.args[GROUPS + 1 :]), call.kwargs
    return call.args, call.kwargs


def _weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    conv: Any = call.module
    entering = follower.entering(call, 1)
    into, out = (0, 1) if conv.transposed else (1, 0)
    if conv.groups > 1 and conv.groups == conv.in_channels and entering is not None:  # depthwise
        made: Ints | None = np.repeat(entering, conv.out_channels // conv.in_channels)
        follower.weight(call, "weight", 0, entering if conv.transposed else made)
    else:
        made = follower.made(call, "out_channels", conv.out_channels)
        follower.together(entering, conv.groups)
        follower.together(made, conv.groups)
        first = slice(0, conv.in_channels // (1 if conv.transposed else conv.groups))
        follower.weight(call, "weight", into, None if entering is None else entering[first])
        first = slice(0, conv.out_channels // (conv.groups if conv.transposed else 1))
        follower.weight(call, "weight", out, None if made is None else made[first])
    follower.weight(call, "bias", 0, made)
    return {(): follower.passed_on(call, 1, made)}


RECORDS = (
    ModuleRecord(
        names=(
            *("Conv1d", "Conv2d", "Conv3d"),
            *("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
        ),
        functions=_FUNCTIONS,
        place=Place.CORE,
        parameters=True,
        whole=False,
        keeps_places=False,
        naming=Naming(arguments=signature_arguments, attributes=_attributes),
        sizing=Sizing(
            rule=_sizes,
            entering=("in_channels", 1),
            makes="out_channels",
            ids_below=None,
            weight_sides=(),
            literals=dict.fromkeys(_FUNCTIONS, _literals),
        ),
        shortcut=None,
        pruning=Pruning(rule=_weights, after_cut=None, batch_statistics=False),
        physics=Physics(products=(("in_channels", "out_channels"),), per_position=False),
    ),
)
