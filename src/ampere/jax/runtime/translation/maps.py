"""Convolutions and pooling over maps, batch and channels first as torch has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import jax
from ampere.jax.runtime.sites import Operation, Site, sides
from jax import lax
from jax import numpy as jnp

_LETTERS = "DHW"
DIVISOR = "divisor_override"


def _layout(rank: int) -> tuple[str, str, str]:
    positions = _LETTERS[-rank:]
    return f"NC{positions}", f"OI{positions}", f"NC{positions}"


def _convolution(rank: int) -> Operation:
    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        given = site.arguments
        if given.get("padding_mode", "zeros") != "zeros":
            raise site.refuse(f"padding_mode {given['padding_mode']!r} is not translated")
        return _convolve(args[0], site.part("weight"), site.part("bias"), given, rank)

    return run


def _convolve(x: Any, weight: Any, bias: Any, given: Mapping[str, Any], rank: int) -> Any:
    padding = given.get("padding", 0)
    if isinstance(padding, str):
        pads: Any = padding.upper()
    else:
        pads = [(side, side) for side in sides(padding, rank)]
    result = lax.conv_general_dilated(
        x,
        weight,
        window_strides=sides(given.get("stride", 1), rank),
        padding=pads,
        rhs_dilation=sides(given.get("dilation", 1), rank),
        dimension_numbers=_layout(rank),
        feature_group_count=int(given.get("groups", 1)),
    )
    return result if bias is None else result + bias.reshape(1, -1, *(1,) * rank)


def _convolution_function(rank: int) -> Operation:
    names = ("stride", "padding", "dilation", "groups")

    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        given = {**dict(zip(names, args[3:])), **options}
        bias = args[2] if len(args) > 2 else options.get("bias")
        return _convolve(args[0], args[1], bias, given, rank)

    return run


def _window(site: Site, given: Mapping[str, Any], rank: int) -> tuple[Any, Any, Any]:
    """Kernel, stride and padding of a pool, over all dimensions of a batch."""
    if given.get("ceil_mode"):
        raise site.refuse("ceil_mode is not translated")
    kernel = sides(given["kernel_size"], rank)
    stride = given.get("stride")
    strides = kernel if stride in (None, ()) else sides(stride, rank)
    padding = sides(given.get("padding", 0), rank)
    return (
        (1, 1, *kernel),
        (1, 1, *strides),
        ((0, 0), (0, 0), *((side, side) for side in padding)),
    )


def _max_pool(rank: int) -> Operation:
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")

    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        given = _given(site, args, options, names)
        if given.get("return_indices"):
            raise site.refuse("indices of the largest are not translated")
        if any(gap != 1 for gap in sides(given.get("dilation", 1), rank)):
            raise site.refuse("a pool with gaps has no gradient in JAX")
        window = _window(site, given, rank)
        return lax.reduce_window(args[0], -jnp.inf, lax.max, *window)

    return run


def _avg_pool(rank: int) -> Operation:
    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", DIVISOR)

    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        given = _given(site, args, options, names)
        if given.get(DIVISOR):
            raise site.refuse(f"{DIVISOR} is not translated")
        kernel, strides, padding = _window(site, given, rank)
        total = lax.reduce_window(args[0], 0.0, lax.add, kernel, strides, padding)
        if given.get("count_include_pad", True) or not any(map(any, padding)):
            return total / float(np.prod(kernel))
        ones = jnp.ones(args[0].shape[2:], args[0].dtype)
        inside = (kernel[2:], strides[2:], padding[2:])
        return total / lax.reduce_window(ones, 0.0, lax.add, *inside)

    return run


def _given(
    site: Site, args: Sequence[Any], options: Mapping[str, Any], names: Sequence[str]
) -> Mapping[str, Any]:
    """What a module was built with, or a function is called with."""
    return site.arguments or {**dict(zip(names, args[1:])), **options}


def _adaptive_pool(rank: int, largest: bool) -> Operation:
    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        x = args[0]
        given = _given(site, args, options, ("output_size",))
        wanted = given["output_size"]
        sizes = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted] * rank
        shape: list[int] = list(x.shape[:-rank])
        axes = []
        for size, have in zip(sizes, x.shape[-rank:]):
            size = have if size is None else int(size)
            if have % size:
                raise site.refuse(f"pooling {have} positions to {size} is not translated")
            axes.append(len(shape) + 1)
            shape += [size, have // size]
        pieces = x.reshape(shape)
        return (jnp.max if largest else jnp.mean)(pieces, axis=tuple(axes))

    return run


def _upsample(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    given = _given(site, args, options, ("size", "scale_factor", "mode"))
    x, factor = args[0], given.get("scale_factor")
    if given.get("mode", "nearest") != "nearest" or factor is None:
        raise site.refuse("only mode='nearest' with a scale_factor is translated")
    for axis, times in enumerate(sides(factor, x.ndim - 2), start=2):
        if int(times) != times:
            raise site.refuse("a scale_factor must be a whole number")
        x = jnp.repeat(x, int(times), axis=axis)
    return x


def _pad(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    x, pads = args[0], list(args[1] if len(args) > 1 else options["pad"])
    mode = args[2] if len(args) > 2 else options.get("mode", "constant")
    value = args[3] if len(args) > 3 else options.get("value")
    if mode != "constant":
        raise site.refuse(f"padding by {mode!r} is not translated")
    config = [(0, 0, 0)] * x.ndim
    for i in range(len(pads) // 2):
        config[-1 - i] = (int(pads[2 * i]), int(pads[2 * i + 1]), 0)
    return jax.lax.pad(x, jnp.asarray(value or 0.0, x.dtype), config)


MODULES: Mapping[str, Operation] = {
    **{f"Conv{rank}d": _convolution(rank) for rank in (1, 2, 3)},
    **{f"MaxPool{rank}d": _max_pool(rank) for rank in (1, 2, 3)},
    **{f"AvgPool{rank}d": _avg_pool(rank) for rank in (1, 2, 3)},
    **{f"AdaptiveAvgPool{rank}d": _adaptive_pool(rank, False) for rank in (1, 2, 3)},
    **{f"AdaptiveMaxPool{rank}d": _adaptive_pool(rank, True) for rank in (1, 2, 3)},
    "Upsample": _upsample,
}
FUNCTIONS: Mapping[str, Operation] = {
    **{f"conv{rank}d": _convolution_function(rank) for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": _max_pool(rank) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": _avg_pool(rank) for rank in (1, 2, 3)},
    **{f"adaptive_avg_pool{rank}d": _adaptive_pool(rank, False) for rank in (1, 2, 3)},
    **{f"adaptive_max_pool{rank}d": _adaptive_pool(rank, True) for rank in (1, 2, 3)},
    "interpolate": _upsample,
    "pad": _pad,
}
