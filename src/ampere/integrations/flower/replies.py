"""Replies: which of them can be averaged.

They come from strangers. Flower's own aggregation stops the whole run if one reply has another
record than the others, and one NaN makes the model NaN: such replies are left out instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict

from ampere.errors import DataError
from ampere.fleet.federation.quotes import MOST_STEPS

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]


def shapes_of(arrays: ArrayRecord) -> Shapes:
    """What a client's weights must look like to be averaged."""
    return {name: (array.dtype, tuple(array.shape)) for name, array in arrays.items()}


def check_arrays(content: RecordDict, shapes: Shapes) -> None:
    """Refuse weights that are not those of the model, or not numbers.

    Raises:
        DataError: They are not.
    """
    if len(content.array_records) != 1:
        raise DataError(f"it has {len(content.array_records)} records of weights, not one")
    (record,) = content.array_records.values()
    if set(record) != set(shapes):
        raise DataError("its weights have other names than the model's")
    for name, (dtype, shape) in shapes.items():
        try:
            values = record[name].numpy()
        except Exception as error:  # whatever a stranger's bytes lead to
            raise DataError(f"weights {name} cannot be read ({type(error).__name__})") from None
        if (str(values.dtype), values.shape) != (dtype, shape):
            raise DataError(f"weights {name} have another shape or type than the model's")
        if np.issubdtype(values.dtype, np.inexact) and not np.isfinite(values).all():
            raise DataError(f"weights {name} are not all numbers")


def check_metrics(content: RecordDict, weighted_by: str) -> None:
    """Refuse metrics that would stop the aggregation, or spoil it.

    Raises:
        DataError: They would.
    """
    if len(content.metric_records) != 1:
        raise DataError(f"it has {len(content.metric_records)} records of metrics, not one")
    (record,) = content.metric_records.values()
    weight = record.get(weighted_by)
    if isinstance(weight, list) or weight is None or not 0 < weight <= MOST_STEPS:
        raise DataError(f"{weighted_by} must be a number above 0 and at most {MOST_STEPS:,}")
    for name, value in record.items():
        values = value if isinstance(value, list) else [value]
        if not all(map(math.isfinite, values)):
            raise DataError(f"its {name[:80]!r} is not a number")


def alike(replies: list[Message]) -> tuple[list[Message], list[Message]]:
    """Those whose records have the names that most have, and the others."""
    forms = {id(reply): _form(reply.content) for reply in replies}
    if not forms:
        return [], []
    usual, _ = Counter(forms.values()).most_common(1)[0]
    same = [reply for reply in replies if forms[id(reply)] == usual]
    return same, [reply for reply in replies if forms[id(reply)] != usual]


def _form(content: RecordDict) -> Hashable:
    metrics = [
        (key, name, len(value) if isinstance(value, list) else None)
        for key, record in content.metric_records.items()
        for name, value in record.items()
    ]
    return (tuple(content.array_records), frozenset(metrics))
