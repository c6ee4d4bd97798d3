"""Totals: measured networks, and how they covary besides through their layers. Arrays only.

symbol        meaning                                                         shape
n, L          networks measured, distinct layers
y             measured totals, in any unit                                    (n,)
counts        how many of each layer a network has                            (n, L)
known_std     relative error of each total, as its repeats show it            (n,)
depth         how deep a network is, in octaves                               (n,)
share         which part of its work each block of calls does                 (n, B)
block         numbers of each block's operation, kind and layer               (B, 3)
when          time of each measurement in seconds; NaN if nobody knows        (n,)
sitting       number of those measured together; −1 if nobody knows           (n,)
size          what the mean says of each network, relative to the usual       (n,)
N             covariance of what is not in the layers: depth, blocks, drift,
              noise                                                           (n, n)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.light import Light, filled, gathered

LASTING = 100.0  # seconds over which a slow drift forgets itself
LEVELS = 3  # on which blocks are alike: operation, kind, layer


@dataclass(frozen=True, eq=False)
class Context:
    """What networks are besides their layers; those that are not told in calls have no blocks."""

    depth: Array
    share: Light
    block: Ints

    @classmethod
    def at(cls, depth: Array) -> Context:
        """Contexts of these depths, without blocks."""
        return cls(depth, np.zeros((len(depth), 0)), np.zeros((0, LEVELS), int))

    def __len__(self) -> int:
        return len(self.depth)

    def __getitem__(self, chosen: Ints | slice) -> Context:
        return Context(self.depth[chosen], self.share[chosen], self.block)

    @cached_property
    def levels(self) -> list[tuple[Ints, Light]]:
        """On each level the numbers that there are, in order, and the share of each, (n, k)."""
        found = [np.unique(numbers, return_inverse=True) for numbers in self.block.T]
        return [(each, gathered(self.share, which, len(each))) for each, which in found]


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured networks: which layers each has, and what it took."""

    counts: Array
    y: Array
    known_std: Array
    context: Context
    when: Array
    sitting: Ints

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, chosen: Ints | slice) -> Rows:
        return Rows(**{each.name: getattr(self, each.name)[chosen] for each in fields(self)})

    @property
    def moments(self) -> int:
        """How many times somebody looked: rows of one sitting are one look."""
        alone = int((self.sitting < 0).sum())
        return alone + len(np.unique(self.sitting[self.sitting >= 0]))


def walk(a: Array, b: Array) -> Array:
    """Covariance of a random walk that starts at depth 0, between depths."""
    return np.asarray(np.minimum(a[:, None], b))


def alike_blocks(a: Context, b: Context) -> Array:
    """How much of their work two networks do in the same blocks, or in such as are alike."""
    total = np.zeros((len(a), len(b)))
    for (ours, share), (theirs, other) in zip(a.levels, b.levels, strict=True):
        _, one, two = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        total += filled(share[:, one] @ other[:, two].T)
    return total / LEVELS


def beside(a: Context, b: Context, hyper: Hyper) -> Array:
    """Covariance of what networks cost by their contexts, g(depth) + share · v."""
    return np.asarray(hyper.depth**2 * walk(a.depth, b.depth) + hyper.block**2 * alike_blocks(a, b))


def beside_var(a: Context, hyper: Hyper) -> Array:
    """The diagonal of that of contexts with themselves."""
    own = sum(np.asarray((share * share).sum(1)) for _, share in a.levels) / LEVELS
    return np.asarray(hyper.depth**2 * a.depth + hyper.block**2 * own)


def together(rows: Rows) -> Array:
    """1 where two rows are of one sitting."""
    known = rows.sitting >= 0
    same = rows.sitting[:, None] == rows.sitting
    return np.asarray((same & known).astype(float))


def lasting(rows: Rows) -> Array:
    """How much of a slow drift two rows share; those of unknown time have none."""
    shared = np.exp(-np.abs(rows.when[:, None] - rows.when) / LASTING)
    return np.asarray(np.where(np.isnan(shared), 0.0, shared))


def besides(rows: Rows, size: Array, hyper: Hyper) -> Array:
    """N: what rows have in common, or for themselves, besides their layers."""
    total = beside(rows.context, rows.context, hyper)
    total += hyper.sitting**2 * together(rows) + hyper.slow**2 * lasting(rows)
    total[np.diag_indices_from(total)] += noise_var(size, hyper) + np.square(rows.known_std)
    return total


def noise_var(size: Array, hyper: Hyper) -> Array:
    """Variance of the noise of totals of these sizes: small ones scatter more."""
    return np.asarray(hyper.noise**2 * size**-hyper.fading)
