"""Totals: measured networks, and how they covary besides through their layers. Arrays only.

symbol        meaning                                                         shape
n, L          networks measured, distinct layers
o, f, p       operations, features, p = (o + 1) f
y             measured totals, in any unit                                    (n,)
scale         the middle between y and the mean's totals                      (n,)
counts        how many of each layer a network has                            (n, L)
known_std     relative error of each total, as its repeats show it            (n,)
context       what rows differ in besides their layers (log of the depth)     (n,)
when          time of each measurement in seconds; NaN if nobody knows        (n,)
W             counts times m, relative to scale                               (n, L)
P             counts times parts, relative to scale                           (n, p)
M             prior mean of each network, relative to scale                   (n,)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.linear_mean import Layers, expand

COEFFICIENT = 1.0  # prior standard deviation of a coefficient, relative to its value
# Relative drift that no correction takes out, and the seconds over which it forgets itself. Not
# fitted: kinds that are measured one after the other would be taken for drift.
DRIFT, LASTING = 0.03, 60.0


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured networks: which layers each has, and what it took."""

    counts: Array
    y: Array
    known_std: Array
    context: Array
    when: Array

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, chosen: Ints | slice) -> Rows:
        return Rows(
            counts=self.counts[chosen],
            y=self.y[chosen],
            known_std=self.known_std[chosen],
            context=self.context[chosen],
            when=self.when[chosen],
        )

    def joined(self, other: Rows) -> Rows:
        """These rows and others, whose layers are these rows' own and perhaps more behind them."""
        room = np.zeros((len(self), other.counts.shape[1] - self.counts.shape[1]))
        return Rows(
            counts=np.vstack([np.hstack([self.counts, room]), other.counts]),
            y=np.append(self.y, other.y),
            known_std=np.append(self.known_std, other.known_std),
            context=np.append(self.context, other.context),
            when=np.append(self.when, other.when),
        )


class Terms(NamedTuple):
    """What rows weigh their layers, and the coefficients of these, with."""

    w: Array
    p: Array
    m: Array


def terms(layers: Layers, rows: Rows, beta: Array, scale: Array) -> Terms:
    """W, P and M."""
    parts = expand(layers, beta)
    relative = rows.counts / scale[:, None]
    w = relative * parts.sum(1)
    return Terms(w, relative @ parts, w.sum(1))


def walk(a: Array, b: Array, hyper: Hyper) -> Array:
    """Covariance of a random walk that starts at context 0, between contexts."""
    return np.asarray(hyper.context**2 * np.minimum(a[:, None], b))


def drift(a: Array, b: Array) -> Array:
    """Covariance of the drift between times; measurements of unknown time have only noise."""
    shared = DRIFT**2 * np.exp(-np.abs(a[:, None] - b) / LASTING)
    return np.where(np.isnan(shared), 0.0, shared)
