"""Convolutions in one and two dimensions: plain, and depthwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ampere.mnn.library import F, blocked, constant, reshaped
from ampere.mnn.operations.base import Call, Operation
from ampere.programs.parameters import sides


def _convolve(
    call: Call, x: Any, weight: Any, bias: Any, settings: Sequence[Any], rank: int
) -> Any:
    """Both ranks; a signal is an image of one row."""
    stride, padding, dilation, groups = settings
    leaving, entering, *kernel = list(weight.shape)
    _check(call, int(groups), entering, leaving)
    pads = _padding(call, padding, kernel, sides(dilation, rank), rank)
    steps, gaps = list(sides(stride, rank)), list(sides(dilation, rank))
    if rank == 1:
        x = reshaped(x, (x.shape[0], x.shape[1], 1, x.shape[2]))
        weight = F.reshape(weight, [leaving, entering, 1, *kernel])
        steps, gaps, pads = [1, *steps], [1, *gaps], [0, *pads]
    if bias is None:
        bias = constant(np.zeros(leaving))
    # Its sides are in the order x, y.
    numbers = (list(reversed(each)) for each in (steps, pads, gaps))
    out = F.conv2d(blocked(x), weight, bias, *numbers, int(groups), F.Padding_Mode.CAFFE)
    return out if rank == 2 else reshaped(out, (out.shape[0], out.shape[1], out.shape[3]))


def _check(call: Call, groups: int, entering: int, leaving: int) -> None:
    depthwise = entering == 1 and leaving == groups
    if groups != 1 and not depthwise:
        raise call.refusal(
            f"{groups} groups of {entering} channels get wrong gradients, or end the process: MNN"
            " trains one group, or one for each channel"
        )


def _padding(
    call: Call, padding: Any, kernel: Sequence[int], dilation: Sequence[int], rank: int
) -> list[int]:
    if padding == "valid":
        return [0] * rank
    if padding == "same":
        whole = [gap * (size - 1) for gap, size in zip(dilation, kernel)]
        if any(each % 2 for each in whole):
            raise call.refusal("its padding is not the same on both sides")
        return [each // 2 for each in whole]
    return list(sides(padding, rank))


def _module(rank: int) -> Any:
    def run(call: Call) -> Any:
        if call.argument("padding_mode", "zeros") != "zeros":
            raise call.refusal("it does not pad with zeros")
        settings = [
            call.argument(name, usual)
            for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1))
        ]
        return _convolve(call, call.x, call.part("weight"), call.part("bias"), settings, rank)

    return run


def _function(rank: int) -> Any:
    def run(call: Call) -> Any:
        settings = [
            call.given(position, name, usual)
            for position, (name, usual) in enumerate(
                (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1)), start=3
            )
        ]
        weight, bias = call.given(1, "weight"), call.given(2, "bias")
        return _convolve(call, call.x, weight, bias, settings, rank)

    return run


LIMITS = "groups but one, or one for each channel; padding but zeros"
OPERATIONS = (
    Operation(("Conv2d",), _module(2), "conv2d", LIMITS),
    Operation(("conv2d",), _function(2), "conv2d", LIMITS),
    Operation(("Conv1d",), _module(1), "conv2d of one row", LIMITS),
    Operation(("conv1d",), _function(1), "conv2d of one row", LIMITS),
)
