"""Samples: labelled inputs to train and judge a model on, without any framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import AnyArray, Ints
from ampere.errors import DataError

Batch: TypeAlias = tuple[AnyArray, Ints]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs with a label each; `load` makes those at some indices (n, *shape) when needed."""

    labels: Ints
    load: Callable[[Ints], AnyArray]

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: npt.ArrayLike) -> Batch:
        """Inputs (n, *shape) and labels (n,) at these indices."""
        at = np.asarray(indices, dtype=np.int64)
        return self.load(at), self.labels[at]

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[Batch]:
        """Endless shuffled batches, epoch by epoch; one that an epoch's end cuts is filled up.

        So every step costs the same, and none trains on a single sample by accident.
        """
        self._check(size)
        remaining = np.empty(0, dtype=np.int64)
        while True:
            while len(remaining) < size:
                remaining = np.concatenate([remaining, rng.permutation(len(self))])
            yield self.batch(remaining[:size])
            remaining = remaining[size:]

    def in_order(self, size: int) -> Iterator[Batch]:
        """Once through; the last batch may be smaller."""
        self._check(size)
        for start in range(0, len(self), size):
            yield self.batch(np.arange(start, min(start + size, len(self))))

    def take(self, indices: npt.ArrayLike) -> Samples:
        """Only those at these indices, still loaded when needed."""
        at = np.asarray(indices, dtype=np.int64)
        return Samples(self.labels[at], lambda chosen: self.load(at[chosen]))

    def _check(self, size: int) -> None:
        if size < 1 or not len(self):
            raise DataError(f"there are no batches of {size} in {len(self)} samples: use 1 or more")


@dataclass(frozen=True, eq=False)
class Dataset:
    """What a model is trained on, what choices are made by, and what judges it in the end."""

    name: str
    train: Samples
    validation: Samples
    test: Samples
    classes: int
    shape: Shape

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            if not len(getattr(self, part)):
                raise DataError(
                    f"{self.name} has no {part} samples: train, validation and test need some each"
                )


def folds(labels: Ints, count: int, rng: np.random.Generator) -> list[Ints]:
    """Indices in parts of equal size, with every class spread evenly over them."""
    shuffled = rng.permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return [np.sort(by_class[start::count]) for start in range(count)]


def standardise(raw: Dataset, every: int = 1) -> Dataset:
    """Shift and scale all inputs such that training ones have mean 0 and standard deviation 1.

    Args:
        raw: The data as they are.
        every: Look at every so many training samples only: decoding all may take minutes.
    """
    count, total, squares = 0, 0.0, 0.0
    for inputs, _ in raw.train.take(np.arange(0, len(raw.train), every)).in_order(200):
        count += inputs.size
        total += float(inputs.sum(dtype=float))
        squares += float(np.square(inputs, dtype=float).sum())
    mean = total / count
    std = math.sqrt(max(squares / count - mean**2, 0.0)) or 1.0

    def scaled(samples: Samples) -> Samples:
        return replace(
            samples, load=lambda at: ((samples.load(at) - mean) / std).astype(np.float32)
        )

    return replace(
        raw, train=scaled(raw.train), validation=scaled(raw.validation), test=scaled(raw.test)
    )
