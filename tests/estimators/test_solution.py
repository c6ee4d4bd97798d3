"""Solutions: a fit that is rebuilt from what was found says what the first one said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.methods import METHODS, ProfileFit, fit_rows
from ampere.estimators.processes import gp, linear_mean, mode, sum_process
from ampere.estimators.solution import rebuild, solution_of
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from priced_rows import members, noisy, scaled
from reported import made_up

RECORDED = Path(__file__).parents[2] / "benchmarks" / "results"
KERNEL = "matern52"


def again(fit: ProfileFit, rows: list[Measurement], method: str = "additive") -> ProfileFit:
    """The fit by way of a file."""
    kept = json.loads(json.dumps(solution_of(fit, rows), allow_nan=False))
    return rebuild(kept, rows, method, KERNEL)


def check_same(one: ProfileFit, other: ProfileFit, rows: list[Measurement]) -> None:
    for row in rows:
        assert repr(one.predict(row.layers)) == repr(other.predict(row.layers))


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 12), st.integers(0, 1000), st.data())
def test_it_says_the_same_of_everything(n: int, seed: int, data: st.DataObject) -> None:
    rows = noisy(members(n, seed), seed)
    for at, factor in data.draw(st.dictionaries(st.integers(0, n - 1), st.just(900.0))).items():
        rows[at] = scaled(rows[at], factor)
    for at in data.draw(st.sets(st.integers(0, n - 1))):
        seconds = data.draw(st.sampled_from([None, 1e-9, 1e3]))
        rows[at] = replace(rows[at], time_s_per_step=seconds)
    fit = fit_rows(rows, "additive", KERNEL)
    rebuilt = again(fit, rows)
    assert isinstance(fit, AdditiveFit) and isinstance(rebuilt, AdditiveFit)
    check_same(fit, rebuilt, noisy(members(4, seed + 1), seed))
    assert [id(each.row) for each in rebuilt.rejected] == [id(each.row) for each in fit.rejected]
    assert rebuilt.rejected == fit.rejected
    assert rebuilt.notes == fit.notes
    assert (rebuilt.bounds, rebuilt.encoder) == (fit.bounds, fit.encoder)
    np.testing.assert_array_equal(rebuilt.energy.alpha, fit.energy.alpha)
    assert (rebuilt.time is None) == (fit.time is None)


def test_one_more_row_moves_a_rebuilt_fit_as_it_moves_the_first() -> None:
    rows, (more,) = noisy(members(12, 5), 5), noisy(members(1, 6), 6)
    fit = fit_rows(rows, "additive", KERNEL)
    rebuilt = again(fit, rows)
    assert isinstance(fit, AdditiveFit) and isinstance(rebuilt, AdditiveFit)
    check_same(fit.tell(more), rebuilt.tell(more), rows)


def test_rows_and_seconds_that_were_left_out_stay_out() -> None:
    rows = noisy(members(20, 3), 3)
    rows[4] = scaled(rows[4], 1000.0)
    rows[7] = replace(rows[7], time_s_per_step=50 * rows[7].time_s_per_step)
    fit = fit_rows(rows, "additive", KERNEL)
    assert isinstance(fit, AdditiveFit) and fit.time is not None
    assert [(each.row, each.seconds_only) for each in fit.rejected] == [
        (rows[4], False),
        (rows[7], True),
    ]
    rebuilt = again(fit, rows)
    assert isinstance(rebuilt, AdditiveFit) and rebuilt.time is not None
    assert (len(rebuilt.energy.rows), len(rebuilt.time.rows)) == (19, 18)
    assert rebuilt.rejected == fit.rejected


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("additive_lenet5_first", "additive"),
        ("own_additive_gpt", "additive"),
        ("additive_lenet5_paper", "paper"),
    ],
)
def test_it_says_the_same_of_a_real_journal(name: str, method: str) -> None:
    _, rows = read_journal(RECORDED / f"{name}.ampere.gz")
    fit = fit_rows(rows, method, KERNEL)
    check_same(fit, again(fit, rows, method), rows)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_searched_for(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(made_up(method=method).measurements)
    kept = solution_of(fit_rows(rows, method, KERNEL), rows)

    def search(*_: object, **__: object) -> Any:
        raise AssertionError("searched")

    monkeypatch.setattr(sum_process, "search", search)
    monkeypatch.setattr(linear_mean, "_least_relative", search)
    monkeypatch.setattr(gp, "_maximise", search)
    monkeypatch.setattr(mode.Search, "_damped", search)
    rebuild(kept, rows, method, KERNEL)
    with pytest.raises(AssertionError, match="searched"):
        fit_rows(rows, method, KERNEL)


def _without(name: str) -> Callable[[Any], Any]:
    return lambda kept: {key: value for key, value in kept.items() if key != name}


def _energy(**changes: Any) -> Callable[[Any], Any]:
    return lambda kept: {**kept, "energy": {**kept["energy"], **changes}}


def _at(**changes: Any) -> Callable[[Any], Any]:
    return lambda kept: _energy(at={**kept["energy"]["at"], **changes})(kept)


def _hyper(**changes: Any) -> Callable[[Any], Any]:
    return lambda kept: _energy(hyper={**kept["energy"]["hyper"], **changes})(kept)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda kept: None,
        lambda kept: [kept],
        _without("energy"),
        _without("rejected"),
        lambda kept: {**kept, "energy": None},
        lambda kept: {**kept, "rejected": [{"row": 999, "reason": "", "seconds_only": False}]},
        lambda kept: {**kept, "rejected": [{"row": "0", "reason": "", "seconds_only": False}]},
        _energy(beta=[[1.0]]),
        _energy(beta=[1.0, 2.0]),
        _energy(beta="all"),
        _energy(stretch=0.0),
        _energy(stretch="wide"),
        _energy(at=None),
        _at(weights=[]),
        _at(weights=[1.0]),
        _at(weights=None),
        _at(b=[[0.0]]),
        _at(gamma=[]),
        _at(w=[1e300] * 3),
        lambda kept: _at(weights=[1e400] * len(kept["energy"]["at"]["weights"]))(kept),
        _hyper(noise=0.0),
        _hyper(noise=-1.0),
        _hyper(noise="much"),
        _hyper(noise=10**400),
        _hyper(lengths=[]),
        _hyper(lengths=[1.0] * 99),
    ],
)
def test_what_is_no_solution_of_these_rows_is_refused(spoil: Callable[[Any], Any]) -> None:
    rows = noisy(members(9, 0), 0)
    kept = solution_of(fit_rows(rows, "additive", KERNEL), rows)
    with pytest.raises(DataError):
        rebuild(spoil(kept), rows, "additive", KERNEL)


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"kinds": {}},
        {"kinds": []},
        {"kinds": {"first": {"energy": {"signal_var": 1.0, "lengths": [], "noise_var": 0.0}}}},
    ],
)
def test_nor_is_another_solution_of_the_paper(kept: Any) -> None:
    rows = list(made_up(method="paper").measurements)
    with pytest.raises(DataError):
        rebuild(kept, rows, "paper", KERNEL)
