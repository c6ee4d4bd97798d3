"""The forecaster: known truth at several sizes, and what it keeps."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import DataError
from ampere.gates.forecast import Forecast, Forecaster, Lap, Prior
from ampere.gates.interludes import Interludes, Validation


def told(costs: list[float], prior: Prior | None = None, steps: int = 10) -> Forecaster:
    forecaster = Forecaster(prior)
    for cost in costs:
        forecaster.tell(Lap(steps, steps * cost, 1.0))
        forecaster.interludes.tell_steps(steps * cost)
    return forecaster


def test_steady_laps_make_a_narrow_forecast() -> None:
    forecast = told([2.0] * 50).rest(500, 500)
    assert forecast.energy_j == pytest.approx(1000, rel=0.01)
    assert forecast.quantile(0.95) / forecast.quantile(0.05) < 1.15


def test_the_prior_fades_as_laps_come() -> None:
    prior = Prior(1.0, 0.05)
    errors = [
        abs(told([2.0] * n, prior).rest(1000, 10 * n).energy_j / 2000 - 1) for n in (1, 5, 40)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03


@pytest.mark.parametrize("mood", [0.0, 0.05])
@pytest.mark.parametrize("laps", [10, 40, 160])
def test_coverage_on_runs_with_known_truth(mood: float, laps: int) -> None:
    rng = np.random.default_rng(laps)
    inside = 0
    for _ in range(60):
        moods, x = [], 0.0
        for _ in range(laps):
            x = 0.97 * x + rng.normal(0, mood * math.sqrt(1 - 0.97**2))
            moods.append(x)
        costs = [2.0 * math.exp(x + rng.normal(0, 0.02)) for x in moods]
        seen = laps // 4
        forecast = told(costs[:seen]).rest(10 * (laps - seen), 10 * seen)
        truth_j = 10 * sum(costs[seen:])
        inside += forecast.quantile(0.05) <= truth_j <= forecast.quantile(0.95)
    assert inside >= 50  # of 60; what was not seen yet is allowed for


def test_a_jump_is_followed_within_a_few_laps() -> None:
    forecaster = told([2.0] * 60 + [3.0] * 5)
    assert forecaster.rest(1000, 650).energy_j == pytest.approx(3000, rel=0.05)


def test_one_odd_lap_is_no_new_level() -> None:
    forecaster = told([2.0, 2.02, 1.98] * 20 + [3.0] + [2.0, 2.02, 1.98] * 2)
    assert forecaster.rest(1000, 670).energy_j == pytest.approx(2000, rel=0.05)


def test_laps_that_tell_nothing() -> None:
    forecaster = Forecaster()
    for lap in (Lap(0, 1.0, 1.0), Lap(5, 0.0, 1.0), Lap(5, 1.0, 0.0)):
        forecaster.tell(lap)
    assert not forecaster.known


def test_a_coarse_lap_counts_for_less() -> None:
    def moved(doubt_j: float) -> float:
        forecaster = Forecaster(Prior(1.0, 0.1))
        for _ in range(3):
            forecaster.tell(Lap(10, 20.0, 1.0, doubt_j))
        return forecaster.step().energy_j

    assert moved(20.0) < moved(0.0)


def test_state_goes_on_in_another_process() -> None:
    forecaster = told([2.0] * 30, Prior(1.9, 0.1))
    forecaster.interludes.tell(5.0, 100)
    other = Forecaster(Prior(1.9, 0.1))
    other.restore(json.loads(json.dumps(forecaster.state())))
    assert other.rest(100, 300).energy_j == pytest.approx(
        forecaster.rest(100, 300).energy_j, rel=0.02
    )
    assert other.interludes.state() == forecaster.interludes.state()


@pytest.mark.parametrize("row", [{}, {"mean": [1, 2]}, {"mean": "many"}])
def test_a_state_of_something_else(row: dict[str, object]) -> None:
    with pytest.raises(DataError):
        Forecaster().restore(row)


@pytest.mark.parametrize(("energy_j", "std_j"), [(0.0, 1.0), (-1.0, 0.0), (1.0, math.nan)])
def test_a_prior_that_is_none(energy_j: float, std_j: float) -> None:
    with pytest.raises(DataError, match="no estimate of a step"):
        Prior(energy_j, std_j)


@given(st.floats(1e-6, 1e9), st.floats(0.0, 2.0), st.floats(0.01, 0.99))
def test_quantiles_and_probabilities_agree(energy_j: float, std: float, probability: float) -> None:
    forecast = Forecast(energy_j, std)
    limit_j = forecast.quantile(probability)
    if std > 1e-3:
        assert forecast.probability_within(limit_j) == pytest.approx(probability, abs=1e-6)
    assert forecast.probability_within(-1.0) == 0.0


def test_nothing_left_takes_nothing() -> None:
    forecast = told([2.0] * 3).rest(0, 30)
    assert (forecast.energy_j, forecast.probability_within(0.0)) == (0.0, 1.0)


def test_interludes_come_at_the_ends_of_epochs() -> None:
    interludes = Interludes()
    interludes.tell(30.0, 101)
    interludes.tell(30.0, 201)
    energy_j, std_j = interludes.ahead(1000.0, 250, 250, 100)
    assert energy_j == pytest.approx(3 * 30.0)
    assert std_j > 0
    assert interludes.due_j(298, 100, 1.0) == 30.0
    assert interludes.due_j(240, 100, 1.0) == 0.0


def test_interludes_of_their_own_rhythm() -> None:
    interludes = Interludes()
    for step in (50, 100, 150):
        interludes.tell(10.0, step)
    energy_j, _ = interludes.ahead(1000.0, 500, 150, 10_000)  # one epoch is the whole run
    assert energy_j == pytest.approx(100.0)


def test_validation_that_was_told_is_worth_as_many_steps() -> None:
    interludes = Interludes(Validation(every=100, worth=20.0, error=0.1))
    energy_j, std_j = interludes.ahead(1000.0, 500, 0, None)
    assert (energy_j, std_j) == (pytest.approx(200.0), pytest.approx(20.0))
    assert interludes.share == pytest.approx(0.2)
    assert interludes.due_j(50, None, 2.0) == 0.0
    assert interludes.due_j(99, None, 2.0) == pytest.approx(40.0 * 1.23)
    interludes.tell(0.5, 42)  # a hiccup is not it
    interludes.tell_steps(200.0)
    assert interludes.due_j(99, None, 2.0) > 49.0
    interludes.tell(44.0, 101)
    assert interludes.due_j(199, None, 2.0) == pytest.approx(44.0, abs=0.6)
    assert interludes.dearest_j(2.0) == 44.0
    energy_j, _ = interludes.ahead(800.0, 400, 100, None)
    assert energy_j == pytest.approx(4 * 44.0, rel=0.05)


def test_a_single_hiccup_is_not_taken_for_a_rhythm() -> None:
    interludes = Interludes()
    interludes.tell(10.0, 5)
    energy_j, std_j = interludes.ahead(1000.0, 500, 500, None)
    assert energy_j == pytest.approx(10.0)  # one in 500 steps, not one in 5
    assert std_j >= energy_j


def test_a_lap_of_one_step_counts_for_little() -> None:
    steady = told([2.0] * 3)
    steady.tell(Lap(1, 1.2, 0.004))
    assert steady.step().energy_j == pytest.approx(2.0, rel=0.02)


def test_before_the_first_interlude_a_little_is_allowed_for() -> None:
    interludes = Interludes()
    early, late = interludes.ahead(100.0, 90, 10, None), interludes.ahead(100.0, 10, 90, None)
    assert early[0] > late[0] > 0
    assert early[1] > late[1]
