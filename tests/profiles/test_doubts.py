"""Doubts: what is said of measurements that should not be believed outright."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ampere.profiles.doubts import NOISY, is_one_moment, meter_faults, pace_of, restlessness
from ampere.records.measurement import Measurement
from fakes import exact, plain_model


def row(**bursts: object) -> Measurement:
    return replace(exact(plain_model(8, 8)), bursts=bursts)


def test_quiet_rows_leave_no_doubt() -> None:
    rows = [row(drift=[1.0, 1.05], faults=0), row()]
    assert restlessness(rows) == []
    assert meter_faults(rows) == []
    assert restlessness([]) == []


def test_the_median_spread_says_that_a_machine_was_busy() -> None:
    calm, busy = (replace(row(), spread=spread) for spread in (0.01, NOISY + 0.01))
    assert restlessness([calm, calm, busy]) == []
    assert "the machine was busy" in restlessness([calm, busy, busy])[0]


@pytest.mark.parametrize(("drift", "told"), [(0.8, True), (0.95, False), (1.2, True)])
def test_a_pace_far_from_that_of_the_beginning_is_told(drift: float, told: bool) -> None:
    rows = [row(drift=[drift])]
    assert pace_of(rows) == drift
    assert any(f"{drift:.2f} ×" in text for text in restlessness(rows)) == told


def test_a_pace_that_nobody_took_is_none() -> None:
    assert pace_of([row()]) is None


def test_faults_of_all_rows_are_counted() -> None:
    (text,) = meter_faults([row(faults=2), row(), row(faults=1)])
    assert text.startswith("3 readings of the meter")


EARLY, LATER = "2026-11-18T12:00:00+00:00", "2026-11-18T12:05:00+00:00"


@pytest.mark.parametrize(
    ("rows", "one"),
    [
        ([{"when": EARLY}], True),
        ([{"when": EARLY}, {"when": EARLY}], True),
        ([{"when": EARLY}, {"when": LATER}], False),
        ([{"when": EARLY, "sitting": "a"}, {"when": LATER, "sitting": "a"}], False),
        ([{"sitting": "a"}, {"sitting": "a"}], True),
        ([{"sitting": "a"}, {"sitting": "b"}], False),
        ([{"when": EARLY}, {}], False),  # which may be of any moment
        ([{}, {}], False),
        ([], False),
    ],
)
def test_rows_that_tell_their_time_may_all_be_of_one_moment(
    rows: list[dict[str, Any]], one: bool
) -> None:
    assert is_one_moment([replace(row(), **fields) for fields in rows]) == one
