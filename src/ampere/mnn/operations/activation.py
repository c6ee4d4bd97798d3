"""Activations: MNN's own where they have a gradient, otherwise made of what has one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ampere.mnn.library import F, plain
from ampere.mnn.operations.base import Call, Operation

CUBE = 0.044715  # of the approximation of GELU by a tangent


def relu(x: Any) -> Any:
    """What is positive."""
    return F.relu(x, 0.0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^−x)."""
    return F.sigmoid(x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return F.tanh(x)


def softplus(x: Any) -> Any:
    """ln(1 + e^x), written so that nothing becomes infinite."""
    return relu(x) + F.log(F.exp(-F.abs(x)) + 1.0)


def _relu6(call: Call) -> Any:
    return F.relu6(call.x, 0.0, 6.0)


def _hardtanh(call: Call) -> Any:
    low = float(call.argument("min_val", call.given(1, "min_val", -1.0)))
    high = float(call.argument("max_val", call.given(2, "max_val", 1.0)))
    return clamped(call.x, low, high)


def clamped(x: Any, low: float | None, high: float | None) -> Any:
    """Not below one number, not above another."""
    if low is not None:
        x = relu(x - float(low)) + float(low)
    if high is not None:
        x = float(high) - relu(float(high) - x)
    return x


def _clamp(call: Call) -> Any:
    low, high = call.given(1, "min"), call.given(2, "max")
    if not all(isinstance(end, (int, float, type(None))) for end in (low, high)):
        raise call.refusal("its ends must be numbers")
    return clamped(call.x, low, high)


def _leaky(call: Call) -> Any:
    slope = call.argument("negative_slope", call.given(1, "negative_slope", 0.01))
    return F.relu(call.x, float(slope))


def _prelu(call: Call) -> Any:
    weight = call.part("weight")
    x = call.plain_x
    if weight is None:
        weight = call.given(1, "weight")
    channels = int(weight.size)
    shape = [1] * len(x.shape)
    if channels > 1:
        shape[1] = channels
    slope = F.reshape(weight, shape)
    return relu(x) - relu(-x) * slope


def _elu(call: Call) -> Any:
    alpha = float(call.argument("alpha", call.given(1, "alpha", 1.0)))
    # Its own ELU has no gradient.
    return relu(call.x) + (F.exp(-relu(-call.x)) - 1.0) * alpha


def _selu(call: Call) -> Any:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return (relu(call.x) + (F.exp(-relu(-call.x)) - 1.0) * alpha) * scale


def _gelu(call: Call) -> Any:
    if call.argument("approximate", call.options.get("approximate", "none")) == "none":
        return F.gelu(call.x)
    x = call.x
    inner = (x + x * x * x * CUBE) * math.sqrt(2 / math.pi)
    return x * (tanh(inner) + 1.0) * 0.5


def _silu(call: Call) -> Any:
    return call.x * sigmoid(call.x)


def _hardsigmoid(call: Call) -> Any:
    return F.relu6(call.x + 3.0, 0.0, 6.0) * (1 / 6)


def _hardswish(call: Call) -> Any:
    return call.x * F.relu6(call.x + 3.0, 0.0, 6.0) * (1 / 6)


LINEAR = 20.0  # from there on torch's softplus is a line, which it is anyway in float32


def _softplus(call: Call) -> Any:
    beta = float(call.argument("beta", call.given(1, "beta", 1.0)))
    if float(call.argument("threshold", call.given(2, "threshold", LINEAR))) < LINEAR:
        raise call.refusal(f"it is a line from below {LINEAR:g} on")
    return softplus(call.x * beta) * (1 / beta)


def _mish(call: Call) -> Any:
    return call.x * tanh(softplus(call.x))


def _softmax(call: Call) -> Any:
    return F.softmax(call.plain_x, _softmax_axis(call))


def _log_softmax(call: Call) -> Any:
    return F.log(F.softmax(call.plain_x, _softmax_axis(call)))


def _softmax_axis(call: Call) -> int:
    axis = call.argument("dim", call.given(1, "dim"))
    if axis is None:
        raise call.refusal("it does not say along which dimension")
    rank = len(call.x.shape)
    return int(axis) + rank if axis < 0 else int(axis)


def _of(function: Callable[[Any], Any]) -> Callable[[Call], Any]:
    return lambda call: function(call.x)


def dropped(call: Call, x: Any, chance: float) -> Any:
    """What MNN's own dropout leaves of a value."""
    if chance <= 0:
        return x
    return call.module(lambda: _dropout_module(chance)).forward(plain(x))


def _dropout_module(chance: float) -> Any:
    from MNN import nn

    return nn.dropout(chance)


def _dropout(call: Call) -> Any:
    chance = float(call.argument("p", call.given(1, "p", 0.5)))
    return dropped(call, call.x, chance if call.given(2, "training", True) else 0.0)


OPERATIONS = (
    Operation(("ReLU", "relu", "relu_"), _of(relu), "relu"),
    Operation(("ReLU6", "relu6"), _relu6, "relu6"),
    Operation(("Hardtanh", "hardtanh", "hardtanh_"), _hardtanh, "two relu"),
    Operation(
        ("clamp", "clamp_", "clamp_min", "clip"), _clamp, "two relu", "ends that are tensors"
    ),
    Operation(("LeakyReLU", "leaky_relu", "leaky_relu_"), _leaky, "relu with a slope"),
    Operation(("PReLU", "prelu"), _prelu, "two relu"),
    Operation(("ELU", "elu", "elu_"), _elu, "relu and exp: its own has no gradient"),
    Operation(("SELU", "selu"), _selu, "relu and exp"),
    Operation(("GELU", "gelu"), _gelu, "gelu, whose values differ from torch's by up to 3e-4"),
    Operation(("SiLU", "silu"), _silu, "x·sigmoid"),
    Operation(("Sigmoid", "sigmoid", "sigmoid_"), _of(sigmoid), "sigmoid"),
    Operation(("Hardsigmoid", "hardsigmoid"), _hardsigmoid, "relu6"),
    Operation(("Hardswish", "hardswish"), _hardswish, "x·relu6"),
    Operation(("Tanh", "tanh", "tanh_"), _of(tanh), "tanh"),
    Operation(("Softplus", "softplus"), _softplus, "relu, exp and log", "thresholds below 20"),
    Operation(("Mish", "mish"), _mish, "x·tanh(softplus)"),
    Operation(("Softmax", "softmax"), _softmax, "softmax"),
    Operation(("LogSoftmax", "log_softmax"), _log_softmax, "log of softmax"),
    Operation(("Dropout", "dropout"), _dropout, "its own dropout, drawn on one core"),
)
