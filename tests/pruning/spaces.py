"""Spaces to search in whose costs are tables, and a profile's tables."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ampere.core.arrays import Array, Ints
from ampere.core.choices import resample
from ampere.core.layers import Features, Layer
from ampere.estimators.fitting import fit_additive
from ampere.profiles.tables.family_tables import FamilyTables
from ampere.pruning.space import Space
from fakes import exact, plain_model

Costs = Mapping[tuple[int, ...], Array]  # a table for some axes, by their levels


@dataclass
class TableGuide:
    """Sums of tables, with bounds that are some share higher; it remembers what it was asked."""

    tables: Costs
    steps: tuple[int, ...]
    margin: float = 0.0
    costs: int = 0
    bounds: int = 0
    calls: int = 0

    def cost(self, widths: Ints) -> Array:
        self.costs += len(widths)
        self.calls += 1
        levels = widths // np.array(self.steps)
        assert (levels * np.array(self.steps) == widths).all()
        costs = [table[tuple(levels[:, list(axes)].T)] for axes, table in self.tables.items()]
        return np.asarray(sum(costs, np.zeros(len(widths))))

    def bound(self, widths: Ints) -> Array:
        costs = self.cost(widths)
        self.bounds += len(widths)
        self.costs -= len(widths)
        return (1 + self.margin) * costs

    def describe(self, cost: float) -> str:
        return f"{cost:g} acorns"


def space_of(
    tables: Costs,
    worth: list[list[float]] | list[Array],
    steps: tuple[int, ...] | None = None,
    least: tuple[int, ...] | None = None,
    margin: float = 0.0,
) -> Space:
    k = len(worth)
    steps = steps or (1,) * k
    return Space(
        names=tuple(f"layer{i}.out" for i in range(k)),
        largest=tuple(step * (len(kept) - 1) for step, kept in zip(steps, worth, strict=True)),
        steps=steps,
        least=least or steps,
        worth=[np.asarray(kept, float) for kept in worth],
        guide=TableGuide(tables, steps, margin),
    )


def linear(top: int) -> Array:
    return np.arange(top + 1) / top


@st.composite
def stairs(draw: Callable[..., Any]) -> Space:
    """Costs of whole numbers that stay, rise, and in places fall, over single axes and pairs."""
    tops = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    k = len(tops)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    falls = draw(st.sampled_from([0, 0, -2]))
    tables = {}
    for axes in [(0,), *((i, i + 1) for i in range(k - 1))]:
        rise = rng.integers(falls, 5, [tops[axis] + 1 for axis in axes])
        rise = np.where(rng.random(rise.shape) < 0.6, 0, rise)
        for axis in range(len(axes)):
            rise = np.cumsum(rise, axis=axis)
        tables[axes] = 1.0 + rise - min(0, rise.min())
    worth = []
    for top in tops:
        gains = np.sort(rng.integers(0, 4, top + 1) * rng.random(top + 1))[::-1]
        gains[0] += 0.1  # the last channels may hold nothing, the first one does not
        worth.append(np.cumsum(gains) / gains.sum())
    steps = tuple(draw(st.sampled_from([1, 1, 3])) for _ in tops)
    least = tuple(step * draw(st.integers(1, top)) for step, top in zip(steps, tops, strict=True))
    return space_of(tables, worth, steps, least, draw(st.sampled_from([0.0, 0.25])))


def between(space: Space, share: float) -> float:
    least, full = space.bound(np.stack((space.low, space.high)))
    return float(least + share * (full - least))


def score(space: Space, widths: Ints) -> Array:
    return space.score(space.levels(widths))


def check_optimal(space: Space, widths: Ints, limit: float) -> None:
    guide = space.guide
    assert guide.bound(widths[None])[0] <= limit
    assert (widths % np.array(space.steps) == 0).all()
    assert (np.array(space.least) <= widths).all()
    assert (widths <= np.array(space.largest)).all()
    for axis, (step, largest) in enumerate(zip(space.steps, space.largest, strict=True)):
        for size in range(widths[axis] + step, largest + 1, step):
            larger = widths.copy()
            larger[axis] = size
            assert guide.cost(larger[None])[0] > guide.cost(widths[None])[0], "a cut saves nothing"
            if score(space, larger[None]) > score(space, widths[None]):
                assert guide.bound(larger[None])[0] > limit, "budget is left"


def products(tops: list[int], stair: int = 1) -> Costs:
    """A chain of layers: each costs its inputs times its outputs, in stairs."""
    edges = [-(-np.arange(top + 1) // stair) / (top / stair) for top in tops]
    return {(i, i + 1): np.outer(edges[i], edges[i + 1]) for i in range(len(tops) - 1)}


def wide(k: int, top: int, stair: int = 1, margin: float = 0.0) -> Space:
    rng = np.random.default_rng(k)
    worth = []
    for _ in range(k):
        kept = np.cumsum([0.0, *np.sort(rng.lognormal(size=top))[::-1]])
        worth.append(kept / kept[-1])
    return space_of(products([top] * k, stair), worth, margin=margin)


def counted(layer: Layer) -> Layer:
    size = float(math.prod(layer.widths.values()))
    return replace(layer, features=Features(6 * size, 40.0 * sum(layer.widths.values()), 4 * size))


def make_tables() -> FamilyTables:
    """Of a small family, from a profile of eight networks."""
    layers, rng = plain_model(24, 16), random.Random(0)
    rows = [exact(tuple(map(counted, resample(layers, rng)))) for _ in range(8)]
    return FamilyTables(layers, fit_additive(rows), counted)
