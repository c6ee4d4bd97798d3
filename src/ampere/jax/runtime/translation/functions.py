"""Functions of torch and methods of its tensors, by the last part of their names.

Those that only give a new shape or compute number by number are a lambda each; whatever is not here
is refused by name.
"""

from __future__ import annotations

from collections.abc import (
    Callable,  # for Python 3.8, on old devices
    Mapping,
    Sequence,
)
from typing import Any

import numpy as np

import jax
from ampere.core.program.terms import DType
from ampere.jax.runtime.sites import Operation, Site
from jax import lax
from jax import numpy as jnp

TYPES = {"int64": "int32", "float64": "float32"}  # JAX has 32 bits unless it is told otherwise


def number_type(name: str) -> Any:
    """JAX's type for one of torch's."""
    return jnp.dtype(TYPES.get(name, name))


def _plain(function: Callable[..., Any]) -> Operation:
    """A function that takes what torch's takes."""

    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        return function(*args, **options)

    return run


def _of_module(function: Callable[..., Any]) -> Operation:
    """A module without parameters: a function of its input, with what it was built with."""

    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        given = {k: v for k, v in site.arguments.items() if k not in ("inplace", "__constants__")}
        return function(*args, **{**given, **options})

    return run


def _curve(function: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, inplace=False: function(x)


def _gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def _unflatten(x: Any, dim: int, unflattened_size: Sequence[int]) -> Any:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *unflattened_size, *x.shape[dim + 1 :])


def _sizes(given: Sequence[Any]) -> Sequence[int]:
    """Sizes one by one, or in a tuple."""
    many = len(given) == 1 and isinstance(given[0], (tuple, list))
    sizes: Sequence[int] = given[0] if many else given
    return sizes


def _permute(x: Any, *dims: Any) -> Any:
    return jnp.transpose(x, _sizes(dims))


def _expand(x: Any, *shape: Any) -> Any:
    sizes = _sizes(shape)
    old = (1,) * (len(sizes) - x.ndim) + tuple(x.shape)
    return jnp.broadcast_to(x, tuple(o if s == -1 else s for s, o in zip(sizes, old)))


def _squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return jnp.squeeze(x)
    axes = [axis % x.ndim for axis in (dim if isinstance(dim, tuple) else (dim,))]
    return jnp.squeeze(x, tuple(axis for axis in axes if x.shape[axis] == 1))


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    length = x.shape[dim]
    if isinstance(size, (tuple, list)):
        bounds = np.cumsum(size)[:-1].tolist()
    else:
        bounds = list(range(size, length, size))
    return tuple(jnp.split(x, bounds, axis=dim))


def _chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(x, -(-x.shape[dim] // chunks), dim)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        axes = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        return function(x, axis=axes, keepdims=keepdim)

    return run


def _softmax(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, dim: int = -1, _stacklevel: int = 0, dtype: Any = None) -> Any:
        return function(x, axis=-1 if dim is None else dim)

    return run


def _with_alpha(sign: int) -> Callable[..., Any]:
    def run(x: Any, y: Any, alpha: float = 1) -> Any:
        return x + sign * alpha * y if alpha != 1 else (x + y if sign > 0 else x - y)

    return run


def _set_item(x: Any, index: Any, value: Any) -> Any:
    return x.at[index].set(value)


def _to(x: Any, *given: Any, **options: Any) -> Any:
    for part in (*given, *options.values()):
        if isinstance(part, DType):
            return x.astype(number_type(part.name))
    return x


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    return jnp.clip(x, min, max)


def _arange(*bounds: Any, dtype: Any = None, **options: Any) -> Any:
    kind = None if dtype is None else number_type(dtype.name)
    return jnp.arange(*bounds, dtype=kind)


def _full(value: float) -> Callable[..., Any]:
    def run(*shape: Any, dtype: Any = None, **options: Any) -> Any:
        kind = jnp.float32 if dtype is None else number_type(dtype.name)
        return jnp.full(tuple(_sizes(shape)), value, kind)

    return run


def _filled(shape: Any, fill_value: float, dtype: Any = None, **options: Any) -> Any:
    return _full(fill_value)(shape, dtype=dtype)


def _like(value: float) -> Callable[..., Any]:
    """A new array beside another one: of its type, unless another is asked for."""

    def run(x: Any, *shape: Any, dtype: Any = None, **options: Any) -> Any:
        kind = x.dtype if dtype is None else number_type(dtype.name)
        return jnp.full(tuple(_sizes(shape)), value, kind)

    return run


def _var(
    x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **options: Any
) -> Any:
    axes = tuple(dim) if isinstance(dim, (tuple, list)) else dim
    correction = options.get("correction", int(unbiased))
    return jnp.var(x, axis=axes, ddof=1 if correction is None else correction, keepdims=keepdim)


def _narrow(x: Any, dim: int, start: int, length: int) -> Any:
    return lax.slice_in_dim(x, start, start + length, axis=dim % x.ndim)


def _selu(x: Any, inplace: bool = False) -> Any:
    return jax.nn.selu(x)


def _hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    return jnp.clip(x, min_val, max_val)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return jnp.where(x * beta > threshold, x, jax.nn.softplus(x * beta) / beta)


def _turned(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """An attribute of a tensor: the one that turns it round."""
    name = site.step.op.split(".")[-2]
    if name not in ("T", "mT"):
        raise site.refuse("this attribute of a tensor is not translated")
    return jnp.swapaxes(args[0], -1, -2) if name == "mT" else args[0].T


def _concatenate(parts: Sequence[Any], dim: int = 0) -> Any:
    return jnp.concatenate(list(parts), axis=dim)


def _stack(parts: Sequence[Any], dim: int = 0) -> Any:
    return jnp.stack(list(parts), axis=dim)


def _addmm(bias: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    return beta * bias + alpha * jnp.matmul(x, y)


def _rsub(x: Any, y: Any, alpha: float = 1) -> Any:
    return y - alpha * x


CURVES: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid, "tanh": jnp.tanh, "silu": jax.nn.silu,
    "relu6": jax.nn.relu6, "reciprocal": jnp.reciprocal, "exp": jnp.exp, "log": jnp.log,
    "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "sin": jnp.sin, "cos": jnp.cos, "erf": lax.erf,
    "abs": jnp.abs, "neg": jnp.negative, "square": jnp.square, "hardswish": jax.nn.hard_swish,
    "hardsigmoid": jax.nn.hard_sigmoid, "mish": jax.nn.mish, "log1p": jnp.log1p,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": _with_alpha(1), "sub": _with_alpha(-1), "__add__": jnp.add, "__radd__": jnp.add,
    "__iadd__": jnp.add, "__sub__": jnp.subtract, "__isub__": jnp.subtract,
    "__rsub__": lambda x, y: y - x, "rsub": _rsub, "mul": jnp.multiply,
    "__mul__": jnp.multiply, "__rmul__": jnp.multiply, "__imul__": jnp.multiply,
    "div": jnp.divide, "true_divide": jnp.divide, "__truediv__": jnp.divide,
    "__itruediv__": jnp.divide, "__rtruediv__": lambda x, y: y / x, "__neg__": jnp.negative,
    "pow": jnp.power, "__pow__": jnp.power, "maximum": jnp.maximum, "minimum": jnp.minimum,
    "__eq__": jnp.equal, "eq": jnp.equal, "__ne__": jnp.not_equal, "ne": jnp.not_equal,
    "__lt__": jnp.less, "lt": jnp.less, "__le__": jnp.less_equal, "le": jnp.less_equal,
    "__gt__": jnp.greater, "gt": jnp.greater, "__ge__": jnp.greater_equal, "ge": jnp.greater_equal,
    "__and__": jnp.bitwise_and, "__or__": jnp.bitwise_or, "__invert__": jnp.invert,
    "where": jnp.where, "masked_fill": _masked_fill, "clamp": _clamp, "clip": _clamp,
}  # fmt: skip
SHAPES: dict[str, Callable[..., Any]] = {
    "flatten": _flatten, "unflatten": _unflatten, "permute": _permute, "expand": _expand,
    "view": lambda x, *shape: x.reshape(_sizes(shape)),
    "reshape": lambda x, *shape: x.reshape(_sizes(shape)),
    "transpose": jnp.swapaxes, "t": jnp.transpose, "squeeze": _squeeze,
    "unsqueeze": jnp.expand_dims,
    "contiguous": lambda x: x, "clone": lambda x: x, "detach": lax.stop_gradient,
    "split": _split, "chunk": _chunk, "cat": _concatenate, "concat": _concatenate,
    "stack": _stack, "__getitem__": lambda x, index: x[index], "__setitem__": _set_item,
    "select": lambda x, dim, index: jnp.take(x, index, axis=dim),
    "unbind": lambda x, dim=0: tuple(jnp.moveaxis(x, dim, 0)), "to": _to, "flip": jnp.flip,
    "float": lambda x: x.astype(jnp.float32), "roll": lambda x, by, dims: jnp.roll(x, by, dims),
    "expand_as": lambda x, y: jnp.broadcast_to(x, y.shape),
    "type_as": lambda x, y: x.astype(y.dtype),
    "zeros_like": jnp.zeros_like, "ones_like": jnp.ones_like, "arange": _arange,
    "zeros": _full(0.0), "ones": _full(1.0), "full": _filled, "new_zeros": _like(0.0),
    "new_ones": _like(1.0), "narrow": _narrow,
    "repeat": lambda x, *times: jnp.tile(x, _sizes(times)), "tril": jnp.tril, "triu": jnp.triu,
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "mean": _reduced(jnp.mean), "sum": _reduced(jnp.sum), "amax": _reduced(jnp.max),
    "amin": _reduced(jnp.min), "var": _var, "logsumexp": _reduced(jax.nn.logsumexp),
    "softmax": _softmax(jax.nn.softmax), "log_softmax": _softmax(jax.nn.log_softmax),
    "argmax": lambda x, dim=None, keepdim=False: jnp.argmax(x, axis=dim, keepdims=keepdim),
}  # fmt: skip
PRODUCTS: dict[str, Callable[..., Any]] = {
    "matmul": jnp.matmul, "__matmul__": jnp.matmul, "__rmatmul__": lambda x, y: jnp.matmul(y, x),
    "bmm": jnp.matmul, "mm": jnp.matmul, "einsum": jnp.einsum, "addmm": _addmm,
}  # fmt: skip

MODULES: Mapping[str, Operation] = {
    "ReLU": _of_module(_curve(jax.nn.relu)),
    "ReLU6": _of_module(_curve(jax.nn.relu6)),
    "Sigmoid": _of_module(jax.nn.sigmoid),
    "Tanh": _of_module(jnp.tanh),
    "SiLU": _of_module(_curve(jax.nn.silu)),
    "GELU": _of_module(_gelu),
    "ELU": _of_module(lambda x, alpha=1.0: jax.nn.elu(x, alpha)),
    "LeakyReLU": _of_module(lambda x, negative_slope=0.01: jax.nn.leaky_relu(x, negative_slope)),
    "Hardswish": _of_module(_curve(jax.nn.hard_swish)),
    "Hardsigmoid": _of_module(_curve(jax.nn.hard_sigmoid)),
    "Hardtanh": _of_module(_hardtanh),
    "Mish": _of_module(_curve(jax.nn.mish)),
    "SELU": _of_module(_selu),
    "Softplus": _of_module(_softplus),
    "Softmax": _of_module(_softmax(jax.nn.softmax)),
    "LogSoftmax": _of_module(_softmax(jax.nn.log_softmax)),
    "Flatten": _of_module(lambda x, start_dim=1, end_dim=-1: _flatten(x, start_dim, end_dim)),
    "Unflatten": _of_module(_unflatten),
    "Identity": lambda site, args, options: args[0],
}
FUNCTIONS: Mapping[str, Operation] = {
    **{name: _plain(_curve(function)) for name, function in CURVES.items()},
    **{
        name: _plain(function)
        for table in (ARITHMETIC, SHAPES, REDUCTIONS, PRODUCTS)
        for name, function in table.items()
    },
    "gelu": _plain(_gelu),
    "selu": _plain(_selu),
    "hardtanh": _plain(_hardtanh),
    "softplus": _plain(_softplus),
    "__get__": _turned,
    "elu": _plain(lambda x, alpha=1.0, inplace=False: jax.nn.elu(x, alpha)),
    "leaky_relu": _plain(
        lambda x, negative_slope=0.01, inplace=False: jax.nn.leaky_relu(x, negative_slope)
    ),
}
