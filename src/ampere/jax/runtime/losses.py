"""The forms of a loss in JAX (`programs.losses` says which is taken of what)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optax

import jax
from ampere.programs.losses import LossPart
from jax import numpy as jnp


def _cross_entropy(result: Any, labels: Any) -> Any:
    scores = result.reshape(-1, result.shape[-1])
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, labels))


def _of_pixels(result: Any, labels: Any) -> Any:
    scores = jnp.moveaxis(result, 1, -1)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, labels))


FORMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "itself": lambda result, target: result,
    "sum": lambda result, target: jnp.sum(result),
    "mse": lambda result, target: jnp.mean(jnp.square(result - target)),
    "bce": lambda result, target: jnp.mean(jax.nn.softplus(result) - result * target),
    "cross_entropy": _cross_entropy,
    "of_pixels": _of_pixels,
}


def loss_of(parts: Sequence[LossPart], results: Sequence[Any], targets: Sequence[Any]) -> Any:
    """The sum of the parts, each of its value and with its target."""
    values = zip(parts, results, targets)
    return sum(FORMS[part.form](result, target) for part, result, target in values)
