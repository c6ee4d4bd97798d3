"""Products of matrices."""

from __future__ import annotations

import math
from typing import Any

from ampere.mnn.library import F, plain, reshaped
from ampere.mnn.operations.base import Call, Operation
from ampere.mnn.operations.shape import widened


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Rows times a matrix that lies on its side, as torch keeps it."""
    shape = list(x.shape)
    rows = reshaped(x, (math.prod(shape[:-1]), shape[-1]))
    out = F.matmul(rows, weight, False, True)
    if bias is not None:
        out = out + bias
    leaving = int(weight.shape[0])
    return out if len(shape) == 2 else reshaped(out, (*shape[:-1], leaving))


def _linear(call: Call) -> Any:
    return linear(call.x, call.part("weight"), call.part("bias"))


def _linear_function(call: Call) -> Any:
    return linear(call.x, call.given(1, "weight"), call.given(2, "bias"))


def product(left: Any, right: Any, turned: bool = False) -> Any:
    """Matrices times matrices, a pair for each of the dimensions before; `right` may be turned."""
    left, right = plain(left), plain(right)
    if len(right.shape) == 2 and len(left.shape) > 2:
        rows = reshaped(left, (math.prod(left.shape[:-1]), left.shape[-1]))
        out = F.matmul(rows, right, False, turned)
        return reshaped(out, (*list(left.shape)[:-1], out.shape[-1]))
    batch = _batch(list(left.shape)[:-2], list(right.shape)[:-2])
    left, right = (_with_batch(side, batch) for side in (left, right))
    return F.matmul(left, right, False, turned)


def _batch(left: list[int], right: list[int]) -> list[int]:
    rank = max(len(left), len(right))
    left, right = [1] * (rank - len(left)) + left, [1] * (rank - len(right)) + right
    return [max(pair) for pair in zip(left, right)]


def _with_batch(side: Any, batch: list[int]) -> Any:
    shape = [*batch, *list(side.shape)[-2:]]
    return side if shape == list(side.shape) else widened(side, shape)


def _matmul(call: Call) -> Any:
    left, right = call.x, call.given(1, "other", call.options.get("mat2"))
    if min(len(left.shape), len(right.shape)) < 2:
        raise call.refusal("one side is a row of numbers, no matrix")
    return product(left, right)


def _rmatmul(call: Call) -> Any:
    return product(call.given(1, "other"), call.x)


OPERATIONS = (
    Operation(("Linear",), _linear, "matmul, +"),
    Operation(("linear",), _linear_function, "matmul, +"),
    Operation(("matmul", "__matmul__", "bmm", "mm"), _matmul, "matmul", "vectors"),
    Operation(("__rmatmul__",), _rmatmul, "matmul"),
)
