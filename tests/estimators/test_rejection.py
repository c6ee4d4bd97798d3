"""Rejection: what contradicts all other rows is left out, and only that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.fitting import fit_additive
from ampere.profiles import profile as profile_module
from priced_rows import (
    OTHERS,
    ROWS,
    joules,
    measured,
    members,
    network,
    noisy,
    scaled,
    timed,
    worst,
)


@pytest.fixture(scope="module")
def fit() -> AdditiveFit:
    return fit_additive(ROWS)


@pytest.mark.parametrize("factors", [(100,), (0.01,), (100, 0.01)])
def test_wrapped_readings_are_left_out_with_the_reason(factors: Sequence[float]) -> None:
    """A counter that wrapped around is far from what all other rows say."""
    good = [measured(layers) for layers in members(20, seed=6)]
    wrong = [scaled(measured(layers), f) for f, layers in zip(factors, members(5, 7), strict=False)]
    fit = fit_additive([*good, *wrong])
    assert {id(rejection.row) for rejection in fit.rejected} == set(map(id, wrong))
    for rejection in fit.rejected:
        assert repr(rejection.row) in rejection.reason
        assert "what its size suggests" in rejection.reason
        assert any(rejection.reason in note for note in fit.notes)
    assert worst(fit, OTHERS) < 0.05
    assert len(fit.energy.rows) == 20


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_readings_that_are_wrong_by_a_factor_of_two_do_little_harm(factor: float) -> None:
    good = noisy(members(20, seed=9), seed=6, noise=0.01)
    wrong = scaled(measured(network(30, 31, 32)), factor)
    fit = fit_additive([*good, wrong])
    for layers in OTHERS:
        assert fit.predict(layers).total.energy_j == pytest.approx(joules(layers), rel=0.1)


def test_good_rows_are_all_kept(fit: AdditiveFit) -> None:
    assert fit.rejected == ()
    assert fit.notes == ()
    assert fit_additive(noisy(members(40, seed=8), seed=8)).rejected == ()


def test_a_few_rows_are_all_believed() -> None:
    rows = [*ROWS[:3], scaled(ROWS[3], 5.0)]
    assert fit_additive(rows).rejected == ()


@pytest.mark.parametrize("factor", [0.05, 30.0])
def test_seconds_that_cannot_be_true_are_left_out_and_their_joules_kept(factor: float) -> None:
    rows = noisy(members(24, seed=3), seed=3)
    wrong = replace(rows[5], time_s_per_step=factor * rows[5].time_s_per_step)
    told = fit_additive([*rows[:5], wrong, *rows[6:]])
    (rejection,) = told.rejected
    assert rejection.row == wrong
    assert "the seconds of" in rejection.reason
    assert told.time is not None
    assert (len(told.energy.rows), len(told.time.rows)) == (24, 23)
    expected = fit_additive(rows).predict(rows[5].layers).total
    found = told.predict(rows[5].layers).total
    assert found.time_s == pytest.approx(expected.time_s, rel=0.1)
    assert found.energy_j == expected.energy_j


@pytest.mark.parametrize("n", [3, 4, 7])
@pytest.mark.parametrize("factor", [1e-8, 1 / 50, 50, 1e7])
def test_of_a_few_rows_the_seconds_that_all_others_contradict_are_left_out(
    n: int, factor: float
) -> None:
    *good, last = ROWS[:n]
    fit = fit_additive([*good, timed(last, factor)])
    (rejection,) = fit.rejected
    assert (rejection.row, rejection.seconds_only) == (timed(last, factor), True)
    assert "the seconds of" in rejection.reason
    assert "all other rows draw about" in rejection.reason
    assert (len(fit.energy.rows), len(fit.timed)) == (n, n - 1)
    expected = fit_additive(good).predict(OTHERS[0]).total.time_s
    assert fit.predict(OTHERS[0]).total.time_s == pytest.approx(expected, rel=0.5)


@pytest.mark.parametrize("factors", [(30, 1), (1, 1e-7), (1, 30, 900), (1, 1, 1e4, 1e4)])
def test_a_few_rows_that_contradict_each_other_are_kept_and_said(factors: Sequence[float]) -> None:
    """Nobody can say which of them is wrong."""
    rows = [timed(row, factor) for row, factor in zip(ROWS, factors, strict=False)]
    fit = fit_additive(rows)
    assert fit.rejected == ()
    (note,) = fit.notes
    assert note.startswith(f"joules and seconds of {len(rows)} rows make ")
    assert "measure more" in note


@pytest.mark.parametrize("factors", [(1,), (1, 12), (1, 1, 12), (3, 1, 1 / 3, 1)])
def test_watts_of_a_few_rows_may_differ(factors: Sequence[float]) -> None:
    rows = [timed(row, factor) for row, factor in zip(ROWS, factors, strict=False)]
    fit = fit_additive(rows)
    assert (fit.rejected, fit.notes) == ((), ())


def test_a_few_rows_that_are_wrong_by_a_lot_are_told_by_the_others() -> None:
    good = noisy(members(24, seed=9), seed=6, noise=0.01)
    wrong = scaled(measured(network(30, 31, 32)), 5.0)
    (rejection,) = fit_additive([*good, wrong]).rejected
    assert rejection.row is wrong
    assert "what all other rows say" in rejection.reason


def test_a_row_that_nobody_expects_is_judged_by_a_fit_of_all(fit: AdditiveFit) -> None:
    wrong = scaled(measured(network(30, 31, 32)), 0.01)
    with pytest.raises(DataError, match="fit all rows anew"):
        fit.tell(wrong)
    profile = profile_module.fit(ROWS)
    before = profile.estimate(OTHERS[0]).energy_j
    told = profile.tell(wrong)
    assert [rejection.row for rejection in told.rejected] == [wrong]
    assert told.estimate(OTHERS[0]).energy_j == pytest.approx(before, rel=0.02)
