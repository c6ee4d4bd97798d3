"""The linear mean: what layers cost by what they do, linear in their features. Arrays only.

cost of a layer  =  features · beta of its operation,        beta >= 0

symbol        meaning                                                         shape
n, L          networks measured, distinct layers
o, f          operations, features
y             measured totals, in any unit                                    (n,)
counts        how many of each layer a network has                            (n, L)
beta          cost of one unit of each; in the last row for any operation     (o + 1, f)
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints

ROUNDS, SMALL = 12, 0.4  # of reweighting; squares up to here, absolute errors beyond


@dataclass(frozen=True, eq=False)
class Layers:
    """Distinct layers as numbers; same `id`, same layer at the same widths.

    Operations and kinds that were never measured have numbers below 0.
    """

    features: Array
    x: Array
    op: Ints
    kind: Ints
    id: Ints
    stairs: Array  # how far widths are from what a device does in one go, (L, s)
    traits: Array  # 1 for each attribute that it has a certain value of, (L, a)
    novel: Array  # how many things about a layer were never measured, (L,)
    unsized: npt.NDArray[np.bool_]  # nobody knows its FLOPs: its kind has a level of its own, (L,)
    lent: Array  # how other devices differ there, in standard deviations of logarithms, (L, e)

    def __len__(self) -> int:
        return len(self.op)

    def __getitem__(self, chosen: Ints | slice) -> Layers:
        return Layers(**{each.name: getattr(self, each.name)[chosen] for each in fields(self)})


def by_operation(layers: Layers, values: Array, operations: int) -> Array:
    """Values of layers (L, k), those of each operation in columns of their own; new ones last."""
    spread = np.zeros((len(layers), operations, values.shape[1]))
    spread[np.arange(len(layers)), np.maximum(layers.op, -1)] = values
    return spread.reshape(len(layers), -1)


def expand(layers: Layers, beta: Array) -> Array:
    """Features times coefficients, each operation in columns of its own."""
    values = layers.features * beta[np.maximum(layers.op, -1)]
    return by_operation(layers, values, len(beta))


def fit_coefficients(layers: Layers, counts: Array, y: Array) -> Array:
    """Coefficients of least relative errors, none below 0: a row for each operation.

    They lean on those that all operations share (the last row) where an operation's own rows leave
    them open. None is exactly 0, since deviations are relative to it.
    """
    operations, width = int(layers.op.max()) + 1, layers.features.shape[1]
    summed = counts @ layers.features
    used = summed.any(0)
    size = np.zeros(width)
    size[used] = [np.median((column / y)[column > 0]) for column in summed.T[used]]
    shared = np.zeros(width)
    equal = 1 / max(int(used.sum()), 1)  # the pull, weak, is towards equal shares
    share = _least_relative(summed[:, used] / size[used], y, equal, 0.03)
    shared[used] = np.maximum(share, 0.02 * equal) / size[used]
    start = np.tile(shared, (operations + 1, 1))
    share = _least_relative(counts @ expand(layers, start), y, 1.0, 0.15)
    return np.asarray(start * np.maximum(share, 0.01).reshape(operations + 1, width))


def _least_relative(design: Array, y: Array, target: float, pull: float) -> Array:
    """Shares >= 0 of the columns that make the least relative errors, pulled to a target.

    Large errors count by their size, not their square (Huber), so that a few readings that are far
    off do not pull the rest; and relative to the middle between both sides, so that those that are
    too low do not weigh more than those that are too high.
    """
    from scipy.optimize import nnls  # predicting does without scipy

    p = design.shape[1]
    expected = design.sum(1) * target
    for _ in range(ROUNDS):
        scale = (y + expected) / 2
        weight = 1 / np.sqrt(np.maximum(np.abs(y - expected) / scale, SMALL))
        pulls = pull * float(np.median(weight))
        system = np.vstack([design * (weight / scale)[:, None], pulls * np.eye(p)])
        share, _ = nnls(system, np.append(y * weight / scale, np.full(p, pulls * target)))
        expected = design @ share
    return np.asarray(share)
