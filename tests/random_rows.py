"""Random layers and networks as arrays, and what their covariances are by definition."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from ampere.core.arrays import Array
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.linear_mean import Layers, fit_coefficients
from ampere.estimators.processes.mode import Solution
from ampere.estimators.processes.sum_process import SumProcess, condition
from ampere.estimators.processes.totals import Context, Rows

HYPER = Hyper(
    operation=0.3,
    kind=0.2,
    short=0.1,
    rough=0.05,
    noise=0.02,
    depth=0.08,
    block=0.15,
    stairs=0.15,
    trait=0.12,
    sitting=0.02,
    slow=0.03,
    reach=0.4,
    fading=0.1,
    lengths=(2.0, 1.3, 3.0),
    size=20.0,
    beyond=0.1,
    odd=0.04,
)


OPERATIONS, KINDS, FEATURES, STAIRS, TRAITS, LENT, BLOCKS = 2, 3, 3, 2, 2, 2, 4


seeds = st.integers(0, 10_000)


def some_layers(n: int, seed: int, known: bool = True) -> Layers:
    """Layers at whole places, so that some share coordinates; the last coordinate never varies."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, KINDS, n)
    kind[: min(n, KINDS)] = range(min(n, KINDS))  # every operation is there
    x = np.column_stack([rng.integers(0, 4, (n, 2)), np.ones(n)]).astype(float)
    op = np.minimum(kind, OPERATIONS - 1)
    if not known:
        op[-1] = kind[-1] = -7
    return Layers(
        features=rng.uniform(0.2, 3.0, (n, FEATURES)),
        x=x,
        op=op,
        kind=kind,
        id=rng.permutation(n) + 99 * seed,
        stairs=rng.uniform(0.0, 1.0, (n, STAIRS)),
        traits=rng.integers(0, 2, (n, TRAITS)).astype(float),
        novel=(op < 0).astype(float),
        unsized=np.zeros(n, bool),
        lent=rng.uniform(-0.5, 0.5, (n, LENT)),
    )


def some_rows(layers: Layers, n: int, seed: int, noise: float = 0.05) -> Rows:
    """Networks of a few layers, and what they cost if a layer costs its features."""
    rng = np.random.default_rng(seed + 1)
    counts = rng.integers(0, 3, (n, len(layers))).astype(float)
    counts[np.arange(n), np.arange(n) % len(layers)] += 1.0
    y = counts @ layers.features @ [1.0, 2.0, 0.5] * np.exp(noise * rng.normal(size=n))
    return Rows(
        counts=counts,
        y=y,
        known_std=rng.uniform(0.0, 0.03, n),
        context=some_contexts(rng, n),
        when=rng.choice([0.0, 30.0, 600.0, math.nan], n),
        sitting=rng.integers(-1, 3, n),
    )


def some_contexts(rng: np.random.Generator, n: int) -> Context:
    """Of several depths; the calls of most networks stand in blocks, some of which are alike."""
    share = rng.uniform(0.0, 0.5, (n, BLOCKS)) * rng.integers(0, 2, (n, BLOCKS))
    numbers = rng.permutation(7)[:BLOCKS]  # so that others have some of them
    block = np.column_stack([numbers % 2, numbers % 3, numbers])
    return Context(rng.choice([0.0, 0.5, 1.5], n), share, block)


def timeless(rows: Rows, **changes: Array) -> Rows:
    """The same rows, measured nobody knows when, nor with which others."""
    nobody = np.full(len(rows), -1)
    return replace(rows, when=np.full(len(rows), math.nan), sitting=nobody, **changes)


def conditioned(layers: Layers, rows: Rows, hyper: Hyper = HYPER) -> SumProcess:
    """The process of these rows, with hyper-parameters that are given."""
    beta = fit_coefficients(layers, rows.counts, rows.y)
    return condition(layers, rows, Solution(hyper, beta))


def besides(rows: Rows, process: SumProcess) -> Array:
    """What rows share besides their layers, and their noise, from its definition."""
    hyper, n = process.hyper, len(rows)
    m = [
        float(process.layers.features[i] @ process.beta[op])
        for i, op in enumerate(process.layers.op)
    ]
    size = rows.counts @ m / hyper.size
    total = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            total[a, b] += beside_by_definition(rows.context, a, rows.context, b, hyper)
            if rows.sitting[a] == rows.sitting[b] >= 0:
                total[a, b] += hyper.sitting**2
            apart = abs(rows.when[a] - rows.when[b])
            total[a, b] += 0.0 if math.isnan(apart) else hyper.slow**2 * math.exp(-apart / 100)
        total[a, a] += hyper.noise**2 * size[a] ** -hyper.fading + rows.known_std[a] ** 2
    return total


def beside_by_definition(one: Context, a: int, two: Context, b: int, hyper: Hyper) -> float:
    """What two networks have in common by their depths and blocks, from its definition."""
    total = hyper.depth**2 * min(one.depth[a], two.depth[b])
    for i, ours in enumerate(one.block):
        for j, theirs in enumerate(two.block):
            same = float((ours == theirs).sum()) / 3
            total += hyper.block**2 * same * one.share[a, i] * two.share[b, j]
    return float(total)


def all_beside(one: Context, two: Context, hyper: Hyper) -> Array:
    """The same of each with each."""
    pairs = [[beside_by_definition(one, a, two, b, hyper) for b in range(len(two))]
             for a in range(len(one))]  # fmt: skip
    return np.array(pairs)


def relative_covariance(a: Layers, i: int, b: Layers, j: int, hyper: Hyper) -> float:
    """K of two layers, from its definition."""
    if a.op[i] != b.op[j]:
        return 0.0
    d = np.abs(a.x[i] - b.x[j]) / np.array(hyper.lengths)
    r = math.sqrt(5) * d
    shape = float(np.prod((1 + r + r**2 / 3) * np.exp(-r)))
    total = hyper.operation**2 * shape + hyper.short**2 * math.exp(-d.sum() / hyper.reach)
    if a.kind[i] == b.kind[j]:
        total += hyper.kind**2 * shape
        if a.unsized[i] and b.unsized[j]:
            total += 3.0**2
    return total + (hyper.rough**2 if a.id[i] == b.id[j] else 0.0)


def covariance_by_definition(a: Layers, b: Layers, hyper: Hyper) -> Array:
    """K of all of these."""
    return np.array(
        [[relative_covariance(a, i, b, j, hyper) for j in range(len(b))] for i in range(len(a))]
    )
