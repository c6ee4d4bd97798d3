"""Products by weights, tables and normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from ampere.jax.runtime.sites import Operation, Shape, Site, sides
from jax import lax
from jax import numpy as jnp


def _linear(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return linear(args[0], site.part("weight"), site.part("bias"))


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """X · weightᵀ + bias."""
    result = jnp.matmul(x, weight.T)
    return result if bias is None else result + bias


def _linear_function(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return linear(*args, **options)


def _embedding(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    given, weight = site.arguments, site.part("weight")
    if given.get("max_norm") is not None or given.get("scale_grad_by_freq"):
        raise site.refuse("max_norm and scale_grad_by_freq are not translated")
    row = given.get("padding_idx")
    if row is not None:  # it gets no gradient
        weight = weight.at[row].set(lax.stop_gradient(weight[row]))
    return jnp.take(weight, args[0], axis=0)


def _batch_norm(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    x, given = args[0], site.arguments
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    shape = (1, -1, *(1,) * (x.ndim - 2))
    mean, variance = jnp.mean(x, axes), jnp.var(x, axes)
    momentum = given.get("momentum", 0.1)
    if site.part("running_mean") is not None:
        if momentum is None:
            raise site.refuse("momentum=None is not translated")
        count = x.size // x.shape[1]
        unbiased = variance * (count / max(count - 1, 1))
        for name, value in (("running_mean", mean), ("running_var", unbiased)):
            kept = (1 - momentum) * site.part(name) + momentum * value
            site.leave(name, lax.stop_gradient(kept))
    scale = lax.rsqrt(variance + given.get("eps", 1e-5)).reshape(shape)
    return _scaled(site, (x - mean.reshape(shape)) * scale, shape)


def _scaled(site: Site, x: Any, shape: Shape) -> Any:
    weight, bias = site.part("weight"), site.part("bias")
    if weight is not None:
        x = x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def _normalised(x: Any, axes: Shape, eps: float) -> Any:
    mean, variance = jnp.mean(x, axes, keepdims=True), jnp.var(x, axes, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + eps)


def _layer_norm(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    x, shape = args[0], sides(site.arguments["normalized_shape"], 1)
    axes = tuple(range(-len(shape), 0))
    return _scaled(site, _normalised(x, axes, site.arguments.get("eps", 1e-5)), shape)


def _layer_norm_function(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    names = ("normalized_shape", "weight", "bias", "eps")
    given = {**dict(zip(names, args[1:])), **options}
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    x = _normalised(args[0], axes, given.get("eps", 1e-5))
    if given.get("weight") is not None:
        x = x * given["weight"]
    return x if given.get("bias") is None else x + given["bias"]


def _rms_norm(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    x, shape = args[0], sides(site.arguments["normalized_shape"], 1)
    axes = tuple(range(-len(shape), 0))
    eps = site.arguments.get("eps")
    eps = jnp.finfo(x.dtype).eps if eps is None else eps
    return _scaled(site, x * lax.rsqrt(jnp.mean(x * x, axes, keepdims=True) + eps), shape)


def _group_norm_function(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    names = ("num_groups", "weight", "bias", "eps")
    given = {**dict(zip(names, args[1:])), **options}
    x = args[0]
    parts = x.reshape(x.shape[0], int(given["num_groups"]), -1)
    same = _normalised(parts, (2,), given.get("eps", 1e-5)).reshape(x.shape)
    for name, put in (("weight", jnp.multiply), ("bias", jnp.add)):
        if given.get(name) is not None:
            same = put(same, given[name].reshape(1, -1, *(1,) * (x.ndim - 2)))
    return same


def _group_norm(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    x, groups = args[0], int(site.arguments["num_groups"])
    parts = x.reshape(x.shape[0], groups, -1)
    same = _normalised(parts, (2,), site.arguments.get("eps", 1e-5)).reshape(x.shape)
    return _scaled(site, same, (1, -1, *(1,) * (x.ndim - 2)))


def _instance_norm(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    x = args[0]
    if site.part("running_mean") is not None:
        raise site.refuse("track_running_stats is not translated")
    same = _normalised(x, tuple(range(2, x.ndim)), site.arguments.get("eps", 1e-5))
    return _scaled(site, same, (1, -1, *(1,) * (x.ndim - 2)))


def _prelu(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    x = args[0]
    weight = site.part("weight") if len(args) == 1 else args[1]
    shape = (1, -1, *(1,) * (x.ndim - 2)) if weight.size > 1 else (1,) * x.ndim
    return jnp.where(x >= 0, x, weight.reshape(shape) * x)


def _dropout(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    given = site.arguments or {**dict(zip(("p", "training"), args[1:])), **options}
    trained = given.get("training", True)
    return drop(site, args[0], float(given.get("p", 0.5)) if trained else 0.0)


def drop(site: Site, x: Any, share: float) -> Any:
    """A share of the numbers left out, and the others raised; another one in each step."""
    if share == 0.0:
        return x
    kept = jax.random.bernoulli(site.key(), 1 - share, x.shape)
    return jnp.where(kept, x / (1 - share), 0)


MODULES: Mapping[str, Operation] = {
    "Linear": _linear,
    "Embedding": _embedding,
    **{f"BatchNorm{rank}d": _batch_norm for rank in (1, 2, 3)},
    **{f"InstanceNorm{rank}d": _instance_norm for rank in (1, 2, 3)},
    "LayerNorm": _layer_norm,
    "RMSNorm": _rms_norm,
    "GroupNorm": _group_norm,
    "PReLU": _prelu,
    "Dropout": _dropout,
}
FUNCTIONS: Mapping[str, Operation] = {
    "linear": _linear_function,
    "layer_norm": _layer_norm_function,
    "group_norm": _group_norm_function,
    "prelu": _prelu,
    "dropout": _dropout,
}
