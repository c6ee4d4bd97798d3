"""Losses of MNN, in the forms that programs ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ampere.mnn.library import F, constant, permuted, plain, reshaped
from ampere.mnn.operations.activation import softplus
from ampere.programs.losses import LossPart


def target_of(part: LossPart, shape: tuple[int, ...]) -> Any:
    """What a tensor is compared with, made once: labels as rows with a one."""
    if part.target is None:
        return None
    if part.form == "cross_entropy":
        return constant(np.eye(shape[-1])[part.target])
    if part.form == "of_pixels":
        return constant(np.eye(shape[1])[part.target.reshape(-1)])
    return constant(part.target)


def loss_of(form: str, result: Any, target: Any) -> Any:
    """The loss of one tensor, a scalar."""
    return _FORMS[form](plain(result), target)


def _cross_entropy(result: Any, target: Any) -> Any:
    classes = int(result.shape[-1])
    rows = reshaped(result, (math.prod(result.shape) // classes, classes))
    chosen = F.reduce_sum(F.log(F.softmax(rows, 1)) * target, [1], False)
    return -F.reduce_mean(chosen, [], False)


def _of_pixels(result: Any, target: Any) -> Any:
    return _cross_entropy(permuted(result, (0, 2, 3, 1)), target)


def _mse(result: Any, target: Any) -> Any:
    away = result - target
    return F.reduce_mean(away * away, [], False)


def _bce(result: Any, target: Any) -> Any:
    return F.reduce_mean(softplus(result) - result * target, [], False)


def _sum(result: Any, target: Any) -> Any:
    return F.reduce_sum(result, [], False)


def _itself(result: Any, target: Any) -> Any:
    return result


_FORMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": _cross_entropy,
    "of_pixels": _of_pixels,
    "mse": _mse,
    "bce": _bce,
    "sum": _sum,
    "itself": _itself,
}
