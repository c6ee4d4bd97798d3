"""The user's own data: pairs of arrays, checked and made into samples."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from ampere.core.arrays import AnyArray, Ints
from ampere.datasets.samples import Dataset, Samples, Shape, folds
from ampere.errors import DataError

PARTS = {2: ("train", "test"), 3: ("train", "validation", "test")}
MOST_CLASSES = 2**31


def assemble(
    name: str, returned: Any, shape: Shape, *, dtype: str = "float32", seed: int = 0
) -> Dataset:
    """Make a dataset of (train, test) or (train, validation, test), pairs of inputs and labels.

    Args:
        name: How to call the data in messages.
        returned: What the user's function returned; arrays are whatever numpy can convert.
        shape: What the model takes, without the batch.
        dtype: What the model takes it as, e.g. `int64` for tokens.
        seed: Of the validation part, a fifth of the training part if none is given.

    Raises:
        DataError: It is anything else, or the arrays do not fit the model or each other.
    """
    is_parts = isinstance(returned, (tuple, list)) and len(returned) in PARTS
    if not is_parts or not all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in returned
    ):
        raise DataError(
            f"{name} must return (train, test) or (train, validation, test), each a pair of inputs"
            " and labels"
        )
    parts = {
        part: _samples(f"the {part} %s of {name}", pair, shape, dtype)
        for part, pair in zip(PARTS[len(returned)], returned, strict=True)
    }
    classes = 1 + max(int(part.labels.max()) for part in parts.values())
    if "validation" not in parts:
        train = parts["train"]
        *to_train, to_validate = folds(train.labels, 5, np.random.default_rng(seed))
        parts["train"] = train.take(np.concatenate(to_train))
        parts["validation"] = train.take(to_validate)
    return Dataset(name, classes=classes, shape=shape, **parts)


def _samples(title: str, pair: Any, shape: Shape, dtype: str) -> Samples:
    """Inputs and labels of one part; `title` names them in messages, with %s for which of both."""
    inputs, labels = _inputs(title % "inputs", pair[0], shape), _labels(title % "labels", pair[1])
    if dtype != "float32" and inputs.dtype.kind == "f":
        raise DataError(f"{title % 'inputs'} are {inputs.dtype}: the model takes {dtype}")
    if len(inputs) != len(labels):
        raise DataError(f"{title % 'labels'} are {len(labels)}, the inputs are {len(inputs)}")
    # Converted batch by batch: images of bytes stay so.
    return Samples(labels, lambda at: inputs[at].astype(dtype))


def _inputs(title: str, raw: Any, shape: Shape) -> AnyArray:
    inputs = _array(title, raw)
    if inputs.shape[1:] != shape or not len(inputs):
        wanted = f"(n, {', '.join(map(str, shape))})"
        raise DataError(
            f"{title} are of shape {inputs.shape}: the model takes {wanted}, n at least 1"
        )
    if not np.isfinite(inputs).all():
        raise DataError(f"{title} hold numbers that are not finite: remove or replace them")
    return inputs


def _labels(title: str, raw: Any) -> Ints:
    labels = _array(title, raw)
    if labels.ndim != 1:
        raise DataError(
            f"{title} are of shape {labels.shape}: give one whole number a sample, (n,)"
        )
    wrong = ~((np.floor(labels + 0.0) == labels) & (labels >= 0) & (labels < MOST_CLASSES))
    if wrong.any():
        raise DataError(f"{title} must be whole numbers from 0 on, not {labels[wrong][0]}")
    return np.array(labels, dtype=np.int64)


def _array(title: str, raw: Any) -> AnyArray:
    try:
        array = np.asarray(raw)
    except Exception as error:  # of any type: the object converts itself
        reason = textwrap.shorten(str(error), 120, placeholder=" ...")
        raise DataError(f"{title} cannot be made into an array: {reason}") from None
    if array.dtype.kind not in "biuf":
        raise DataError(f"{title} must be numbers, not {array.dtype}")
    return array
