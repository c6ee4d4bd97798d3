"""Tables that ids are looked up in: products with a matrix that is one where the id is.

Looking up has no gradient in MNN (`gather`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ampere.mnn.library import F, constant, reshaped
from ampere.mnn.operations.base import Call, Operation


def looked_up(ids: Any, table: Any, empty: int | None = None) -> Any:
    """The rows of a table that ids name; the empty row gets no gradient, and stays zero."""
    entries, width = (int(size) for size in table.shape)
    shape = list(ids.shape)
    rows = F.one_hot(reshaped(ids, (math.prod(shape),)), entries, 1.0, 0.0, -1)
    if empty is not None:
        kept = np.ones((1, entries))
        kept[0, empty] = 0.0
        rows = rows * constant(kept)
    return reshaped(F.matmul(rows, table, False, False), (*shape, width))


def _embedding(call: Call) -> Any:
    if call.argument("max_norm") is not None or call.argument("scale_grad_by_freq"):
        raise call.refusal("it scales its rows")
    return looked_up(call.x, call.part("weight"), call.argument("padding_idx"))


def _embedding_function(call: Call) -> Any:
    if call.given(3, "max_norm") is not None or call.given(5, "scale_grad_by_freq"):
        raise call.refusal("it scales its rows")
    return looked_up(call.x, call.given(1, "weight"), call.given(2, "padding_idx"))


OPERATIONS = (
    Operation(("Embedding",), _embedding, "one_hot, matmul: gather has no gradient", "max_norm"),
    Operation(("embedding",), _embedding_function, "one_hot, matmul", "max_norm"),
)
