"""Random layers and networks as arrays, and what their covariances are by definition."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from ampere.core.arrays import Array
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.linear_mean import Layers
from ampere.estimators.processes.sum_process import SumProcess
from ampere.estimators.processes.totals import COEFFICIENT, Rows

HYPER = Hyper(
    operation=0.3, kind=0.2, rough=0.05, noise=0.02, context=0.08, lengths=(2.0, 1.3, 3.0)
)


OPERATIONS, KINDS, FEATURES = 2, 3, 3


seeds = st.integers(0, 10_000)


def some_layers(n: int, seed: int, known: bool = True) -> Layers:
    """Layers at whole places, so that some share coordinates; the last coordinate never varies."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, KINDS, n)
    kind[: min(n, KINDS)] = range(min(n, KINDS))  # every operation is there
    x = np.column_stack([rng.integers(0, 4, (n, 2)), np.ones(n)]).astype(float)
    op = np.minimum(kind, OPERATIONS - 1)
    if not known:
        op[-1] = kind[-1] = -1
    return Layers(rng.uniform(0.2, 3.0, (n, FEATURES)), x, op, kind, rng.permutation(n) + 99 * seed)


def some_rows(layers: Layers, n: int, seed: int, noise: float = 0.05) -> Rows:
    """Networks of a few layers, and what they cost if a layer costs its features."""
    rng = np.random.default_rng(seed + 1)
    counts = rng.integers(0, 3, (n, len(layers))).astype(float)
    counts[np.arange(n), np.arange(n) % len(layers)] += 1.0
    y = counts @ layers.features @ [1.0, 2.0, 0.5] * np.exp(noise * rng.normal(size=n))
    known, context = rng.uniform(0.0, 0.03, n), rng.choice([0.0, 0.5, 1.5], n)
    return Rows(counts, y, known, context, rng.choice([0.0, 30.0, 600.0, math.nan], n))


def timeless(rows: Rows, **changes: Array) -> Rows:
    """The same rows, measured nobody knows when."""
    return replace(rows, when=np.full(len(rows), math.nan), **changes)


def drift(when: Array) -> Array:
    """What measurements of one minute share, from its definition."""
    shared = [[0.03**2 * math.exp(-abs(a - b) / 60) for b in when] for a in when]
    return np.where(np.isnan(shared), 0.0, shared)


def relative_covariance(a: Layers, i: int, b: Layers, j: int, hyper: Hyper) -> float:
    """K of two layers, from its definition."""
    r = math.sqrt(5) * np.abs(a.x[i] - b.x[j]) / np.array(hyper.lengths)
    shape = float(np.prod((1 + r + r**2 / 3) * np.exp(-r)))
    same = a.id[i] == b.id[j]
    total = hyper.rough**2 if same else 0.0
    if same or a.op[i] == b.op[j] >= 0:
        total += hyper.operation**2 * shape
    if same or a.kind[i] == b.kind[j] >= 0:
        total += hyper.kind**2 * shape
    return total


def prior(layers: Layers, counts: Array, context: Array, process: SumProcess) -> tuple[Array, ...]:
    """Mean and covariance of totals before anything is measured, sum by sum."""
    hyper, beta = process.hyper, process.beta
    m = [float(layers.features[i] @ beta[layers.op[i]]) for i in range(len(layers))]
    k = np.array(
        [
            [relative_covariance(layers, i, layers, j, hyper) for j in range(len(layers))]
            for i in range(len(layers))
        ]
    )
    t = len(counts)
    total = np.zeros((t, t))
    size = counts @ m
    for a in range(t):
        for b in range(t):
            total[a, b] += (counts[a] * m) @ k @ (counts[b] * m)
            for op in {*layers.op.tolist()}:
                ours = layers.op == op
                one, two = (counts[row, ours] @ layers.features[ours] * beta[op] for row in (a, b))
                total[a, b] += COEFFICIENT**2 * one @ two
            total[a, b] += hyper.context**2 * min(context[a], context[b]) * size[a] * size[b]
    return size, total
