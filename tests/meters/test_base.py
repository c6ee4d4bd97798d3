from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance, Reading, Window, check_samples, energy_between


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
    assert energy_between(before, after) == Window(spent_j, passed_s)
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


def sampled(energy_j: float, time_s: float, samples: int | None) -> Reading:
    return Reading(energy_j, time_s, Provenance.SENSOR, samples, period_s=0.1)


@pytest.mark.parametrize(
    ("time_s", "samples"), [(0.1, 0), (0.19, 0), (0.21, 1), (0.39, 1), (0.41, 2), (2.01, 10)]
)
def test_half_of_the_samples_must_be_there(time_s: float, samples: int) -> None:
    before = sampled(5, 1, 7)
    assert energy_between(before, sampled(9, 1 + time_s, 7 + samples)) == Window(
        pytest.approx(4), pytest.approx(time_s), samples
    )
    for fewer in range(samples):
        with pytest.raises(MeterFault, match=rf"^{fewer} of \d+ samples in .* are too few"):
            energy_between(before, sampled(9, 1 + time_s, 7 + fewer))


def test_two_looks_are_no_evidence_of_what_lies_between_them() -> None:
    with pytest.raises(MeterFault, match="0 of 50 samples in 5 s are too few to tell"):
        energy_between(sampled(0, 0, 40), sampled(50, 5, 40))


def test_counters_need_no_samples() -> None:
    assert energy_between(sampled(0, 0, None), sampled(50, 5, None)) == Window(50, 5)
    assert Window(50, 5).power_w == 10


def test_no_period_asks_for_no_samples_and_the_smallest_for_all() -> None:
    check_samples(0, 100.0, 0.0)
    with pytest.raises(MeterFault, match="too few"):
        check_samples(10**9, 1e300, 5e-324)
