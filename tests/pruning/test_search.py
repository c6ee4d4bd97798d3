"""Searching: within the limit, nothing free left behind, the same for the same seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.core.arrays import Array, Ints
from ampere.core.choices import resample
from ampere.core.layers import Features, Layer
from ampere.errors import DataError
from ampere.estimators.additive import fit_additive
from ampere.profiles.family_tables import FamilyTables
from ampere.pruning.guide import EnergyGuide, FlopsGuide
from ampere.pruning.search import SEARCHES, Evolution, Gradient, Random, Search, Space, draw, regrow
from fakes import exact, plain_model

SMALL: Mapping[str, Search] = {
    "random": Random(400),
    "gradient": Gradient(),
    "evolution": Evolution(16, 6),
}
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
        found = [table[tuple(levels[:, list(axes)].T)] for axes, table in self.tables.items()]
        return np.asarray(sum(found, np.zeros(len(widths))))

    def bound(self, widths: Ints) -> Array:
        found = self.cost(widths)
        self.bounds += len(widths)
        self.costs -= len(widths)
        return (1 + self.margin) * found

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
        tuple(f"layer{i}.out" for i in range(k)),
        tuple(step * (len(kept) - 1) for step, kept in zip(steps, worth, strict=True)),
        steps,
        least or steps,
        [np.asarray(kept, float) for kept in worth],
        TableGuide(tables, steps, margin),
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


def check(space: Space, widths: Ints, limit: float) -> None:
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


@given(stairs(), st.floats(0, 1), st.integers(0, 99))
@settings(max_examples=150)
def test_what_is_regrown_leaves_nothing_free(space: Space, share: float, seed: int) -> None:
    limit = between(space, share)
    drawn = space.widths(draw(space, np.random.default_rng(seed), 8))
    for widths in drawn[space.guide.bound(drawn) <= limit]:
        grown = regrow(space, widths, limit)
        assert (grown >= widths).all()
        check(space, grown, limit)


@pytest.mark.parametrize("name", SEARCHES)
@given(space=stairs(), share=st.floats(0, 1), seed=st.integers(0, 99), count=st.integers(1, 4))
def test_every_search(name: str, space: Space, share: float, seed: int, count: int) -> None:
    limit = between(space, share)
    found = SMALL[name].find(space, limit, np.random.default_rng(seed), count)
    assert 1 <= len(found) <= count
    if space.guide.bound(np.array([space.largest]))[0] <= limit:
        assert found.tolist() == [list(space.largest)]
        return
    assert len(np.unique(found, axis=0)) == len(found)
    assert (np.diff(score(space, found)) <= 0).all()
    for widths in found:
        check(space, widths, limit)
    again = SMALL[name].find(space, limit, np.random.default_rng(seed), count)
    assert again.tolist() == found.tolist()


@given(stairs(), st.floats(0, 1), st.integers(0, 99))
def test_random_is_never_worse_than_the_best_of_its_draws(
    space: Space, share: float, seed: int
) -> None:
    limit = between(space, share)
    drawn = draw(space, np.random.default_rng(seed), 400)
    fitting = drawn[space.bound(drawn) <= limit]
    found = Random(400).find(space, limit, np.random.default_rng(seed))
    assert score(space, found)[0] >= max(space.score(fitting), default=-math.inf)


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


@pytest.mark.parametrize("seed", range(5))
def test_evolution_is_never_worse_than_its_start(seed: int) -> None:
    space = wide(12, 32)
    limit = between(space, 0.3)
    start = score(space, Gradient().find(space, limit, np.random.default_rng(seed)))[0]
    for evolution in (Evolution(4, 1), Evolution(4, 4)):
        found = score(space, evolution.find(space, limit, np.random.default_rng(seed)))[0]
        assert found >= start
    assert score(space, Evolution().find(space, limit, np.random.default_rng(seed)))[0] > start


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_best_of_a_small_space_is_found(name: str, share: float) -> None:
    space = space_of(products([9, 7, 8]), [linear(9), linear(7), linear(8)])
    limit = between(space, share)
    every = np.stack(np.meshgrid(*(np.arange(1, top + 1) for top in (9, 7, 8))), -1).reshape(-1, 3)
    best = space.score(every[space.bound(every) <= limit]).max()
    search = {"random": Random(20_000), "evolution": Evolution(40, 20)}.get(name, Gradient())
    found = score(space, search.find(space, limit, np.random.default_rng(0)))[0]
    # One cut after the other cannot look back.
    assert found == pytest.approx(best, abs=0.15 if name == "gradient" else 1e-12)


def test_gradient_cuts_what_saves_most_for_what_it_loses() -> None:
    # A channel of either axis costs the same; those of the second hold hardly anything.
    worth = [[0.0, 0.4, 0.7, 1.0], [0.0, 0.98, 0.99, 1.0]]
    space = space_of({(0,): np.arange(4.0), (1,): np.arange(4.0)}, worth)
    found = [Gradient().find(space, limit, np.random.default_rng(0))[0] for limit in (5, 4, 3, 2)]
    assert [row.tolist() for row in found] == [[3, 2], [3, 1], [2, 1], [1, 1]]


def test_gradient_looks_beyond_the_next_size() -> None:
    # The first cuts of axis 0 save nothing, the next one nearly all.
    costs = {(0,): np.array([0, 1, 9, 9, 9.0]), (1,): np.array([0, 1, 2, 3, 4.0])}
    space = space_of(costs, [[0, 0.9, 0.95, 0.98, 1], linear(4)])
    assert Gradient().find(space, 5.0, np.random.default_rng(0)).tolist() == [[1, 4]]


def test_the_last_cut_is_the_smallest_that_is_enough() -> None:
    # After axis 1, five channels of axis 0 save most for what they lose, but one is enough.
    costs = {(0,): np.arange(7.0), (1,): np.arange(3.0)}
    space = space_of(costs, [[0, 0.9, 0.91, 0.92, 0.93, 0.94, 1], [0, 0.985, 1]])
    assert Gradient().find(space, 7.0, np.random.default_rng(0)).tolist() == [[6, 1]]
    assert Gradient().find(space, 6.0, np.random.default_rng(0)).tolist() == [[5, 1]]


@pytest.mark.parametrize("name", SEARCHES)
def test_where_only_the_widest_axis_costs(name: str) -> None:
    widest = np.maximum.outer(np.arange(7.0), np.arange(7.0))
    space = space_of({(0, 1): widest}, [linear(6), linear(6)])
    assert SMALL[name].find(space, 4.0, np.random.default_rng(0)).tolist() == [[4, 4]]


def test_only_what_is_worth_something_is_paid_for() -> None:
    space = space_of({(0,): np.arange(5.0), (1,): np.arange(5.0)}, [[0, 0.5, 1, 1, 1], linear(4)])
    assert regrow(space, np.array([1, 2]), 7.0).tolist() == [2, 4]


def test_falling_costs_do_not_refuse_the_full_widths() -> None:
    space = space_of({(0,): np.array([0, 5, 3.0])}, [linear(2)])
    for search in SMALL.values():
        assert search.find(space, 4.0, np.random.default_rng(0)).tolist() == [[2]]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_limit_below_the_smallest_candidate_says_what_that_needs(name: str) -> None:
    space = space_of({(0,): np.array([0, 3, 5.0])}, [linear(2)], margin=0.5)
    with pytest.raises(DataError, match=r"4\.5 acorns a step, .*, and 4 acorns are allowed"):
        SMALL[name].find(space, 4.0, np.random.default_rng(0))
    with pytest.raises(DataError, match="allowed"):
        SMALL[name].find(space, math.nan, np.random.default_rng(0))


@pytest.mark.parametrize("name", SEARCHES)
def test_a_limit_that_the_full_widths_keep_cuts_nothing(name: str) -> None:
    space = space_of({(0,): np.array([0, 3, 5.0])}, [linear(2)], steps=(4,))
    for limit in (5.0, 6.0, math.inf):
        assert SMALL[name].find(space, limit, np.random.default_rng(0), 3).tolist() == [[8]]


@pytest.mark.parametrize("name", SEARCHES)
def test_several_candidates_are_several(name: str) -> None:
    space = wide(6, 24)
    found = SEARCHES[name]().find(space, between(space, 0.4), np.random.default_rng(0), 4)
    assert len(np.unique(found, axis=0)) == 4


def test_draws_do_not_depend_on_the_guide() -> None:
    energy = wide(5, 16)
    flops = replace(energy, guide=TableGuide({(0,): np.arange(17.0)}, (1,) * 5))
    after = []
    for space, share in ((energy, 0.1), (energy, 0.9), (flops, 0.5)):
        rng = np.random.default_rng(7)
        Random(70_000).find(space, between(space, share), rng)
        after.append(rng.random())
    assert len(set(after)) == 1
    one, other = (draw(space, np.random.default_rng(7), 100) for space in (energy, flops))
    assert one.tolist() == other.tolist()


@given(stairs(), st.integers(0, 99))
def test_draws_reach_every_level_and_no_other(space: Space, seed: int) -> None:
    drawn = draw(space, np.random.default_rng(seed), 3000)
    for column, low, high in zip(drawn.T, space.low, space.high, strict=True):
        assert set(column.tolist()) == set(range(low, high + 1))


@pytest.mark.parametrize("k", [5, 20, 60])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_draws_come_near_any_budget(k: int, share: float) -> None:
    space = wide(k, 32)
    costs = space.cost(draw(space, np.random.default_rng(0), 20_000)) / between(space, 1.0)
    assert np.count_nonzero((0.8 * share < costs) & (costs <= share)) > 200


@pytest.mark.parametrize("k", [20, 60])
def test_many_axes_take_few_questions(k: int) -> None:
    for name, most in (("gradient", 200), ("evolution", 1200)):
        space = wide(k, 64, stair=8, margin=0.1)
        assert isinstance(space.guide, TableGuide)
        limit = between(space, 0.3)
        found = SEARCHES[name]().find(space, limit, np.random.default_rng(0))
        assert space.guide.calls < most
        assert space.guide.bound(found)[0] > 0.98 * limit


def test_bounds_are_computed_for_few() -> None:
    space = wide(8, 32, margin=0.1)
    assert isinstance(space.guide, TableGuide)
    Random(200_000).find(space, between(space, 0.3), np.random.default_rng(0))
    assert space.guide.bounds < 20_000
    assert space.guide.costs < 150_000  # of the others the score alone is enough


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"least": (3,)}, "from 3 to 8: use multiples of 2"),
        ({"least": (0,)}, "from 0 to 8"),
        ({"least": (10,)}, "from 10 to 8"),
        ({"largest": (9,)}, "from 2 to 9"),
        ({"worth": [linear(3)]}, "worth at each of its sizes"),
        ({"worth": [0.5 * linear(4)]}, "and 1 at 8"),
        ({"worth": [np.array([0, 0, 0.5, 0.7, 1])]}, "above 0"),
        ({"worth": [np.array([0, 0.6, 0.5, 0.7, 1])]}, "never fall"),
        ({"worth": [np.array([0, 0.6, math.nan, 0.7, 1])]}, "never fall"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(changes: dict[str, Any], says: str) -> None:
    space = space_of({(0,): np.arange(5.0)}, [linear(4)], steps=(2,))
    with pytest.raises(DataError, match=says):
        replace(space, **changes)


def counted(layer: Layer) -> Layer:
    size = float(math.prod(layer.widths.values()))
    return replace(layer, features=Features(6 * size, 40.0 * sum(layer.widths.values()), 4 * size))


@pytest.fixture(scope="module")
def tables() -> FamilyTables:
    layers, rng = plain_model(24, 16), random.Random(0)
    rows = [exact(tuple(map(counted, resample(layers, rng)))) for _ in range(8)]
    return FamilyTables(layers, fit_additive(rows), counted)


def test_guides_of_a_profile(tables: FamilyTables) -> None:
    widths = np.array([[24, 16], [5, 3]])
    mean, std = tables.estimate_many(widths), tables.std(widths)
    assert EnergyGuide(tables).bound(widths).tolist() == mean.tolist()
    sure = EnergyGuide(tables, 0.9)
    assert sure.cost(widths).tolist() == mean.tolist()
    assert sure.bound(widths) == pytest.approx(mean + 1.2815515655446004 * std)
    assert sure.describe(1.5e-3) == "1.50 mJ"
    flops = FlopsGuide(tables)
    assert flops.cost(widths).tolist() == [6 * (24 + 24 * 16 + 16), 6 * (5 + 15 + 3)]
    assert flops.bound(widths).tolist() == flops.cost(widths).tolist()
    assert flops.describe(7.43e8) == "743 MFLOP"


def test_the_deviation_is_not_computed_where_nobody_asks_for_it(
    tables: FamilyTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FamilyTables, "std", None)
    assert EnergyGuide(tables, 0.5).bound(np.array([[5, 3]])).shape == (1,)


@pytest.mark.parametrize("confidence", [0.49, 1.0, -1.0, math.nan])
def test_a_confidence_is_at_least_a_half(tables: FamilyTables, confidence: float) -> None:
    with pytest.raises(DataError, match="confidence"):
        EnergyGuide(tables, confidence)


@pytest.mark.parametrize("name", SEARCHES)
def test_more_confidence_keeps_less(tables: FamilyTables, name: str) -> None:
    limit = 0.6 * float(tables.estimate_many([tables.largest])[0])
    worth = [linear(top) for top in tables.largest]
    scores = []
    for guide in (EnergyGuide(tables), EnergyGuide(tables, 0.95)):
        space = Space(tables.names, tables.largest, tables.steps, (2, 2), worth, guide)
        found = SMALL[name].find(space, limit, np.random.default_rng(0))
        assert guide.bound(found)[0] <= limit
        scores.append(score(space, found)[0])
    assert scores[0] > scores[1]
