"""Walks: within the limit, nothing free left behind."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.pruning.space import Space
from ampere.pruning.strategies import draw
from ampere.pruning.walk import BATCH, cut_down, first_within, grow_back
from pruning.spaces import between, check_optimal, linear, space_of, stairs


@given(stairs(), st.floats(0, 1), st.integers(0, 99))
@settings(max_examples=150)
def test_what_is_grown_back_leaves_nothing_free(space: Space, share: float, seed: int) -> None:
    limit = between(space, share)
    drawn = space.widths(draw(space, np.random.default_rng(seed), 8))
    for widths in drawn[space.guide.bound(drawn) <= limit]:
        grown = space.widths(grow_back(space, space.levels(widths), limit))
        assert (grown >= widths).all()
        check_optimal(space, grown, limit)


def test_only_what_is_worth_something_is_paid_for() -> None:
    space = space_of({(0,): np.arange(5.0), (1,): np.arange(5.0)}, [[0, 0.5, 1, 1, 1], linear(4)])
    assert grow_back(space, np.array([1, 2]), 7.0).tolist() == [2, 4]


@given(stairs(), st.floats(0, 1))
def test_what_is_cut_down_is_within_the_limit(space: Space, share: float) -> None:
    limit = between(space, share)
    if space.bound(space.high[None])[0] <= limit:
        return
    levels = cut_down(space, limit)
    assert space.bound(levels[None])[0] <= limit
    assert (space.low <= levels).all()
    assert (levels <= space.high).all()


def test_the_first_that_fit_are_found_and_no_more_are_looked_at() -> None:
    space = space_of({(0,): np.arange(9.0)}, [linear(8)])
    rows = np.tile(np.array([[8], [3], [5], [2]]), (BATCH, 1))
    assert first_within(space, rows, 4.0, 3).tolist() == [[3], [2], [3]]
    assert space.guide.bounds == BATCH
    assert first_within(space, rows[:1], 4.0, 3).shape == (0, 1)
