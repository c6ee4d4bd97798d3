"""Steady: bursts that stumbled are pulled back, all others stay as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.records.steady import FAR, FEW, SLOWER, clipped, steady

calm_paces = st.lists(st.floats(1.0, 1.05), min_size=1, max_size=30)
paces = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30)


@given(calm_paces)
def test_bursts_of_a_calm_machine_are_not_touched(times: list[float]) -> None:
    assert steady(times, times).tolist() == times


@given(calm_paces, st.floats(1e-9, 1e9))
def test_neither_are_their_joules(times: list[float], watts: float) -> None:
    joules = [watts * time_s for time_s in times]
    assert steady(joules, times).tolist() == joules


@pytest.mark.parametrize("bursts", [8, 10, 15])
@pytest.mark.parametrize("slower", [1.5, 5.0, 100.0])
def test_one_that_stumbles_counts_as_one_that_is_a_tenth_slower(bursts: int, slower: float) -> None:
    times = [1.0] * (bursts - 1) + [slower]
    assert steady(times, times).tolist() == pytest.approx([1.0] * (bursts - 1) + [1 + SLOWER])
    assert steady(times, times).mean() - 1 <= 0.02


@pytest.mark.parametrize("seed", range(5))
def test_one_of_ten_that_is_five_times_slower_hardly_moves_the_mean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calm = np.exp(rng.normal(0, 0.01, 10))
    stumbling = calm.copy()
    stumbling[seed] *= 5
    found = steady(stumbling.tolist(), stumbling.tolist()).mean() / calm.mean()
    assert 1.0 <= found < 1.02


@pytest.mark.parametrize("slow", [1, 2, 3, 4])
def test_up_to_half_of_ten_are_pulled_back(slow: int) -> None:
    times = [1.0] * (10 - slow) + [3.0] * slow
    assert steady(times, times).mean() == pytest.approx(1 + slow * SLOWER / 10)


def test_joules_are_pulled_back_in_proportion() -> None:
    """A burst that took five times as long took its joules for longer, too, at its own watts."""
    times = [1.0] * 9 + [5.0]
    joules = [3.0] * 9 + [5.0 * 2.9]
    found = steady(joules, times)
    assert found[:9].tolist() == [3.0] * 9
    assert found[9] == pytest.approx(1.1 * 2.9)


def test_joules_that_cannot_be_explained_by_time_are_pulled_back_too() -> None:
    joules = [3.0] * 9 + [30.0]
    found = steady(joules, [1.0] * 10)
    assert found[9] == pytest.approx(3.0 * (1 + SLOWER))
    lost = steady([3.0] * 9 + [0.03], [1.0] * 10)
    assert lost[9] == pytest.approx(3.0 * (1 - SLOWER))


@pytest.mark.parametrize("bursts", range(FEW))
def test_of_few_nobody_knows_which_stumbled(bursts: int) -> None:
    times = [1.0, 50.0, 3.0][:bursts]
    assert steady(times, times).tolist() == times


def test_four_are_enough() -> None:
    assert steady([1.0, 1.0, 1.0, 9.0], [1.0, 1.0, 1.0, 9.0]).max() == pytest.approx(1.1)


@given(paces, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(times: list[float], random: object) -> None:
    order = list(range(len(times)))
    random.shuffle(order)  # type: ignore[attr-defined]
    joules = [2.0 + 3.0 * time_s for time_s in times]
    found = steady(joules, times)
    shuffled = steady([joules[i] for i in order], [times[i] for i in order])
    assert shuffled.tolist() == pytest.approx([found[i] for i in order], rel=1e-12)


@given(paces)
def test_no_burst_is_left_out_or_leaves_where_the_others_are(times: list[float]) -> None:
    found = steady(times, times)
    assert len(found) == len(times)
    assert np.all(found > 0)
    assert np.all(np.isfinite(found))
    assert found.min() >= min(times) * (1 - 1e-12)
    assert found.max() <= max(times) * (1 + 1e-12)


@given(paces, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(times: list[float], unit: float) -> None:
    scaled = [unit * time_s for time_s in times]
    assert steady(scaled, scaled) == pytest.approx(unit * steady(times, times), rel=1e-9)


@given(st.lists(st.floats(1.0, 1.05), min_size=6, max_size=20), st.floats(1.2, 1e3))
def test_a_slower_stumble_moves_the_mean_no_further(times: list[float], slower: float) -> None:
    stumbled = [*times, slower]
    worse = [*times, 2 * slower]
    assert steady(worse, worse).mean() == pytest.approx(steady(stumbled, stumbled).mean())


# --- values far from the others -------------------------------------------------------------------


def test_values_far_from_the_others_are_pulled_to_where_far_begins() -> None:
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 100.0])
    # The middle is 0.5, and half of them are within 1.5 of it.
    limit = FAR * 1.5 / 0.6745
    assert clipped(values).tolist() == pytest.approx([-2.0, -1.0, 0.0, 1.0, 2.0, 0.5 + limit])


def test_where_most_are_the_same_nothing_is_known_of_what_is_far() -> None:
    values = np.array([1.0, 1.0, 1.0, 1.0, 7.0])
    assert clipped(values).tolist() == values.tolist()
    assert clipped(values, near=0.5).tolist() == [1.0, 1.0, 1.0, 1.0, 1.5]


def test_what_is_near_stays_however_close_the_others_are() -> None:
    values = np.array([1.0, 1.0001, 1.0002, 0.9999, 1.05])
    assert clipped(values, near=0.1).tolist() == values.tolist()
    assert clipped(values).max() < 1.001


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(0.0, 10.0))
def test_nothing_is_pulled_away_from_the_middle(values: list[float], near: float) -> None:
    found = clipped(np.array(values), near)
    middle = float(np.median(values))
    for before, after in zip(values, found, strict=True):
        assert abs(after - middle) <= abs(before - middle) + 1e-9
        assert math.isfinite(after)
