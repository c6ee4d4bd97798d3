"""Totals: measured networks, and how they covary besides through their layers. Arrays only.

symbol        meaning                                                         shape
n, L          networks measured, distinct layers
y             measured totals, in any unit                                    (n,)
counts        how many of each layer a network has                            (n, L)
known_std     relative error of each total, as its repeats show it            (n,)
context       what rows differ in besides their layers (log of the depth)     (n,)
when          time of each measurement in seconds; NaN if nobody knows        (n,)
sitting       number of those measured together; −1 if nobody knows           (n,)
size          what the mean says of each network, relative to the usual       (n,)
N             covariance of what is not in the layers: context, drift, noise  (n, n)
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.processes.covariance import Hyper

LASTING = 100.0  # seconds over which a slow drift forgets itself


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured networks: which layers each has, and what it took."""

    counts: Array
    y: Array
    known_std: Array
    context: Array
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
    """Covariance of a random walk that starts at context 0, between contexts."""
    return np.asarray(np.minimum(a[:, None], b))


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
    total = hyper.context**2 * walk(rows.context, rows.context)
    total += hyper.sitting**2 * together(rows) + hyper.slow**2 * lasting(rows)
    total[np.diag_indices_from(total)] += noise_var(size, hyper) + np.square(rows.known_std)
    return total


def noise_var(size: Array, hyper: Hyper) -> Array:
    """Variance of the noise of totals of these sizes: small ones scatter more."""
    return np.asarray(hyper.noise**2 * size**-hyper.fading)
