"""Pools over parts of maps and signals, and over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ampere.mnn.library import F, blocked, reshaped
from ampere.mnn.operations.base import Call, Operation
from ampere.mnn.operations.shape import mean
from ampere.programs.parameters import sides


def _pool(call: Call, x: Any, kernel: Sequence[int], stride: Sequence[int], name: str) -> Any:
    """A pool without padding; a signal is an image of one row."""
    rank = len(kernel)
    if rank == 1:
        x = reshaped(x, (x.shape[0], x.shape[1], 1, x.shape[2]))
        kernel, stride = (1, *kernel), (1, *stride)
    sizes = (list(reversed(each)) for each in (kernel, stride))  # x, y
    out = getattr(F, name)(blocked(x), *sizes, F.Padding_Mode.VALID, [0, 0])
    return out if rank == 2 else reshaped(out, (out.shape[0], out.shape[1], out.shape[3]))


def _over_parts(rank: int, name: str) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        kernel = sides(call.argument("kernel_size", call.given(1, "kernel_size")), rank)
        stride = call.argument("stride", call.given(2, "stride"))
        stride = kernel if stride in (None, (), []) else sides(stride, rank)
        _check(call, rank, name)
        return _pool(call, call.x, kernel, stride, name)

    return run


# What torch's functions take behind a pool's kernel and stride, in this order.
LATER: Mapping[str, tuple[str, ...]] = {
    "max_pool": ("padding", "dilation", "ceil_mode", "return_indices"),
    "avg_pool": ("padding", "ceil_mode", "count_include_pad", "divisor_override"),
}


def _check(call: Call, rank: int, name: str) -> None:
    given = {
        each: call.argument(each, call.given(position, each))
        for position, each in enumerate(LATER[name], start=3)
    }
    if any(sides(given["padding"] or 0, rank)):
        raise call.refusal("its gradients are wrong where a pool is padded")
    if any(gap != 1 for gap in sides(given.get("dilation") or 1, rank)) or given["ceil_mode"]:
        raise call.refusal("it has gaps, or rounds up")
    if given.get("return_indices"):
        raise call.refusal("it returns indices")
    if given.get("divisor_override"):
        raise call.refusal("it divides by a number of its own")


def _adaptive(rank: int, name: str) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        shape = list(call.x.shape)[-rank:]
        asked = call.argument("output_size", call.given(1, "output_size"))
        wanted = [own if size is None else size for size, own in zip(_each(asked, rank), shape)]
        if name == "avg_pool" and all(size == 1 for size in wanted):
            axes = [len(call.x.shape) - 1 - n for n in range(rank)]
            return mean(call.x, sorted(axes), True)
        if any(own % size for own, size in zip(shape, wanted)):
            raise call.refusal(f"{shape} is no multiple of {wanted}")
        kernel = [own // size for own, size in zip(shape, wanted)]
        return _pool(call, call.x, kernel, kernel, name)

    return run


def _each(asked: Any, rank: int) -> Sequence[Any]:
    return asked if isinstance(asked, (tuple, list)) else (asked,) * rank


PADDED = "padding, gaps, rounding up, other divisors"
OPERATIONS = (
    Operation(("MaxPool2d", "max_pool2d"), _over_parts(2, "max_pool"), "max_pool", PADDED),
    Operation(
        ("MaxPool1d", "max_pool1d"), _over_parts(1, "max_pool"), "max_pool of one row", PADDED
    ),
    Operation(("AvgPool2d", "avg_pool2d"), _over_parts(2, "avg_pool"), "avg_pool", PADDED),
    Operation(
        ("AvgPool1d", "avg_pool1d"), _over_parts(1, "avg_pool"), "avg_pool of one row", PADDED
    ),
    Operation(
        ("AdaptiveAvgPool2d", "adaptive_avg_pool2d"),
        _adaptive(2, "avg_pool"),
        "reduce_mean, avg_pool",
        "sizes that do not divide",
    ),
    Operation(
        ("AdaptiveAvgPool1d", "adaptive_avg_pool1d"),
        _adaptive(1, "avg_pool"),
        "reduce_mean, avg_pool",
        "sizes that do not divide",
    ),
    Operation(
        ("AdaptiveMaxPool2d", "adaptive_max_pool2d"),
        _adaptive(2, "max_pool"),
        "max_pool",
        "sizes that do not divide",
    ),
)
