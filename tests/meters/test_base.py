from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import MeterError
from ampere.meters.base import Provenance, Reading, energy_between


def reading(energy_j: float, time_s: float, provenance: Provenance = Provenance.COUNTER) -> Reading:
    return Reading(energy_j, time_s, provenance)


@given(
    energy_j=st.integers(0, 10**9),
    time_s=st.integers(0, 10**9),
    spent_j=st.integers(1, 10**6),
    passed_s=st.integers(1, 10**6),
)
def test_difference_of_two_readings(
    energy_j: int, time_s: int, spent_j: int, passed_s: int
) -> None:
    before = reading(energy_j, time_s)
    after = reading(energy_j + spent_j, time_s + passed_s)
    assert energy_between(before, after) == (spent_j, passed_s)
    with pytest.raises(MeterError):
        energy_between(after, before)


@pytest.mark.parametrize(
    ("after", "complaint"),
    [
        (reading(math.nan, 2), "finite"),
        (reading(math.inf, 2), "finite"),
        (reading(6, math.nan), "finite"),
        (reading(6, math.inf), "finite"),
        (reading(6, 1), "did not advance"),
        (reading(6, 0.5), "did not advance"),
        (reading(4, 2), "backwards by 1 J"),
        (reading(5, 2), "did not move in 1 s"),
        (reading(6, 2, Provenance.MODELLED), "counter and a modelled"),
    ],
)
def test_impossible_pairs_are_refused(after: Reading, complaint: str) -> None:
    with pytest.raises(MeterError, match=complaint):
        energy_between(reading(5, 1), after)


def test_two_infinite_readings_are_refused() -> None:
    with pytest.raises(MeterError, match="finite"):
        energy_between(reading(math.inf, 1), reading(math.inf, 2))


def test_every_provenance_has_a_sentence() -> None:
    for provenance in Provenance:
        measured = provenance.origin.startswith("measured")
        assert measured == (provenance.metered == "measured")
        assert measured != ("not measured" in provenance.origin)
