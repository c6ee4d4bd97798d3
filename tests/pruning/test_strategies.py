"""Strategies: within the limit, nothing free left behind, the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import DataError
from ampere.profiles.tables.family_tables import FamilyTables
from ampere.pruning.guide import EnergyGuide
from ampere.pruning.space import Space
from ampere.pruning.strategies import STRATEGIES, Evolution, Gradient, Random, WidthStrategy, draw
from pruning.spaces import (
    TableGuide,
    between,
    check_optimal,
    linear,
    make_tables,
    products,
    score,
    space_of,
    stairs,
    wide,
)

SMALL: Mapping[str, WidthStrategy] = {
    "random": Random(400),
    "gradient": Gradient(),
    "evolution": Evolution(16, 6),
}


@pytest.mark.parametrize("name", STRATEGIES)
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
        check_optimal(space, widths, limit)
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


@pytest.mark.parametrize("seed", range(3))
def test_evolution_is_never_worse_than_its_start(seed: int) -> None:
    space = wide(12, 32)
    limit = between(space, 0.3)
    start = score(space, Gradient().find(space, limit, np.random.default_rng(seed)))[0]
    for evolution in (Evolution(4, 1), Evolution(4, 4)):
        found = score(space, evolution.find(space, limit, np.random.default_rng(seed)))[0]
        assert found >= start
    assert score(space, Evolution().find(space, limit, np.random.default_rng(seed)))[0] > start


@pytest.mark.parametrize("name", STRATEGIES)
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


@pytest.mark.parametrize("name", STRATEGIES)
def test_where_only_the_widest_axis_costs(name: str) -> None:
    widest = np.maximum.outer(np.arange(7.0), np.arange(7.0))
    space = space_of({(0, 1): widest}, [linear(6), linear(6)])
    assert SMALL[name].find(space, 4.0, np.random.default_rng(0)).tolist() == [[4, 4]]


def test_falling_costs_do_not_refuse_the_full_widths() -> None:
    space = space_of({(0,): np.array([0, 5, 3.0])}, [linear(2)])
    for search in SMALL.values():
        assert search.find(space, 4.0, np.random.default_rng(0)).tolist() == [[2]]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_limit_below_the_smallest_candidate_says_what_that_needs(name: str) -> None:
    space = space_of({(0,): np.array([0, 3, 5.0])}, [linear(2)], margin=0.5)
    with pytest.raises(DataError, match=r"4\.5 acorns a step, .*, and 4 acorns are allowed"):
        SMALL[name].find(space, 4.0, np.random.default_rng(0))
    with pytest.raises(DataError, match="allowed"):
        SMALL[name].find(space, math.nan, np.random.default_rng(0))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_limit_that_the_full_widths_keep_cuts_nothing(name: str) -> None:
    space = space_of({(0,): np.array([0, 3, 5.0])}, [linear(2)], steps=(4,))
    for limit in (5.0, 6.0, math.inf):
        assert SMALL[name].find(space, limit, np.random.default_rng(0), 3).tolist() == [[8]]


@pytest.mark.parametrize("name", STRATEGIES)
def test_several_candidates_are_several(name: str) -> None:
    space = wide(6, 24)
    found = STRATEGIES[name]().find(space, between(space, 0.4), np.random.default_rng(0), 4)
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
    for search, most in ((Gradient(), 200), (Evolution(), 1200)):
        space = wide(k, 64, stair=8, margin=0.1)
        assert isinstance(space.guide, TableGuide)
        limit = between(space, 0.3)
        found = search.find(space, limit, np.random.default_rng(0))
        assert space.guide.calls < most
        assert space.guide.bound(found)[0] > 0.98 * limit


def test_bounds_are_computed_for_few() -> None:
    space = wide(8, 32, margin=0.1)
    assert isinstance(space.guide, TableGuide)
    Random(200_000).find(space, between(space, 0.3), np.random.default_rng(0))
    assert space.guide.bounds < 20_000
    assert space.guide.costs < 150_000  # of the others the score alone is enough


@pytest.fixture(scope="module")
def tables() -> FamilyTables:
    return make_tables()


@pytest.mark.parametrize("name", STRATEGIES)
def test_more_confidence_keeps_less(tables: FamilyTables, name: str) -> None:
    limit = 0.7 * float(tables.estimate_many([tables.largest])[0])
    worth = [linear(top) for top in tables.largest]
    scores = []
    for guide in (EnergyGuide(tables), EnergyGuide(tables, 0.95)):
        space = Space(
            names=tables.names,
            largest=tables.largest,
            steps=tables.steps,
            least=(2, 2),
            worth=worth,
            guide=guide,
        )
        found = SMALL[name].find(space, limit, np.random.default_rng(0))
        assert guide.bound(found)[0] <= limit
        scores.append(score(space, found)[0])
    assert scores[0] > scores[1]
