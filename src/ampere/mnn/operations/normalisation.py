"""Normalisation: over the batch by MNN's own module, over layers, groups and channels composed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ampere.mnn.library import F, reshaped
from ampere.mnn.operations.base import Call, Operation
from ampere.mnn.operations.elementwise import inverse_root
from ampere.mnn.operations.shape import mean
from ampere.programs.parameters import sides


def normalised(x: Any, axes: Sequence[int], epsilon: float) -> Any:
    """Without its mean, and of size one, over these dimensions."""
    around = x - mean(x, axes, True)
    return around * inverse_root(mean(around * around, axes, True) + epsilon)


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


def _layer(call: Call, shape: Any, weight: Any, bias: Any, epsilon: float) -> Any:
    x = call.plain_x
    rank, count = len(x.shape), len(sides(shape, 1))
    return _scaled(normalised(x, range(rank - count, rank), epsilon), weight, bias)


def _layer_norm(call: Call) -> Any:
    shape, epsilon = call.argument("normalized_shape"), float(call.argument("eps", 1e-5))
    return _layer(call, shape, call.part("weight"), call.part("bias"), epsilon)


def _layer_norm_function(call: Call) -> Any:
    weight, bias = call.given(2, "weight"), call.given(3, "bias")
    epsilon = float(call.given(4, "eps", 1e-5))
    return _layer(call, call.given(1, "normalized_shape"), weight, bias, epsilon)


def _rms_norm(call: Call) -> Any:
    x = call.plain_x
    rank, count = len(x.shape), len(sides(call.argument("normalized_shape"), 1))
    epsilon = call.argument("eps")
    # Without one torch takes what float32 can tell from 1.
    epsilon = 1.1920929e-07 if epsilon is None else float(epsilon)
    size = mean(x * x, range(rank - count, rank), True) + epsilon
    return _scaled(x * inverse_root(size), call.part("weight"), None)


def _grouped(call: Call, groups: int, weight: Any, bias: Any, epsilon: float) -> Any:
    x = call.plain_x
    shape = list(x.shape)
    rows = reshaped(x, (shape[0], groups, math.prod(shape[1:]) // groups))
    out = reshaped(normalised(rows, [2], epsilon), shape)
    across = [1, shape[1], *[1] * (len(shape) - 2)]
    weight, bias = (None if part is None else F.reshape(part, across) for part in (weight, bias))
    return _scaled(out, weight, bias)


def _group_norm(call: Call) -> Any:
    groups, epsilon = int(call.argument("num_groups")), float(call.argument("eps", 1e-5))
    return _grouped(call, groups, call.part("weight"), call.part("bias"), epsilon)


def _group_norm_function(call: Call) -> Any:
    weight, bias = call.given(2, "weight"), call.given(3, "bias")
    epsilon = float(call.given(4, "eps", 1e-5))
    return _grouped(call, int(call.given(1, "num_groups")), weight, bias, epsilon)


def _instance_norm(call: Call) -> Any:
    if call.argument("track_running_stats", False):
        raise call.refusal("it keeps statistics of the batch")
    epsilon = float(call.argument("eps", 1e-5))
    channels = int(call.x.shape[1])
    return _grouped(call, channels, call.part("weight"), call.part("bias"), epsilon)


def _batch_norm(call: Call) -> Any:
    """By MNN's own module, which keeps statistics as torch does, and updates them with a step."""
    if not (call.argument("affine", True) and call.argument("track_running_stats", True)):
        raise call.refusal("it has no scale, or keeps no statistics")
    if any(not held.trains for held in call.step.held if not held.buffer):
        raise call.refusal("its scale is frozen")
    return call.module(lambda: _batch_norm_module(call)).forward(call.x)


def _batch_norm_module(call: Call) -> Any:
    from MNN import nn

    channels, rank = int(call.argument("num_features")), len(call.x.shape)
    momentum = call.argument("momentum", 0.1)
    if momentum is None:
        raise call.refusal("its statistics are a mean of all batches")
    # What torch takes of the new, MNN keeps of the old.
    return nn.batch_norm(channels, rank, 1.0 - float(momentum), float(call.argument("eps", 1e-5)))


OPERATIONS = (
    Operation(
        ("BatchNorm2d", "BatchNorm1d"),
        _batch_norm,
        "its own batch_norm",
        "without scale, without statistics, frozen",
    ),
    Operation(("LayerNorm",), _layer_norm, "reduce_mean, sqrt"),
    Operation(("layer_norm",), _layer_norm_function, "reduce_mean, sqrt"),
    Operation(("RMSNorm",), _rms_norm, "reduce_mean, sqrt"),
    Operation(("GroupNorm",), _group_norm, "reduce_mean, sqrt"),
    Operation(("group_norm",), _group_norm_function, "reduce_mean, sqrt"),
    Operation(
        ("InstanceNorm1d", "InstanceNorm2d"), _instance_norm, "reduce_mean, sqrt", "statistics"
    ),
)
