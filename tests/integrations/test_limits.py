"""Limits of a job: how they are written, and what they refuse."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import DataError, NotCovered
from ampere.estimators.intervals import bound, interval, probability_within
from ampere.integrations.limits import JobLimits, parse_memory
from ampere.profiles.estimate import Estimate
from plain_rows import layer


def job(
    energy_j: float = 100.0,
    std: float = 10.0,
    time_s: float | None = 50.0,
    method: str = "additive",
) -> Estimate:
    time_std = None if time_s is None else 0.1 * time_s
    return Estimate((), energy_j, std, time_s, time_std, steps=20, method=method)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512 MB", 512e6), ("2 GiB", 2**31), ("2gib", 2**31), ("1.5 kB", 1500), ("100B", 100)],
)
def test_memory_is_read(text: str, size: float) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"energy": "5 kilos"}, "'5 kilos' is no budget"),
        ({"energy": "50%"}, "50% is a share of a model that nobody named"),
        ({"energy": "0 J"}, "'0 J' is no budget: write energy of a job as 800 J"),
        ({"energy": -3}, "a limit of energy of -3 leaves room for nothing"),
        ({"energy": True}, "text or a number"),
        ({"time": "soon"}, "'soon' is no time: write it as 90 s"),
        ({"time": "10"}, "'10' is no time"),
        ({"time": "5 min later"}, "is no time"),
        ({"time": math.nan}, "leaves room for nothing"),
        ({"memory": "2 GW"}, "'2 GW' is no amount of memory: write it as 512 MB"),
        ({"memory": "2 iB"}, "is no amount of memory"),
        ({"memory": 0}, "a limit of memory of 0 leaves room for nothing"),
        ({}, "a budget needs a limit"),
        ({"energy": "5 J", "confidence": 1.0}, "confidence is 1.0"),
        ({"energy": "5 J", "confidence": 0}, "confidence is 0"),
        ({"energy": "5 J", "confidence": math.nan}, "confidence is nan"),
        ({"energy": "5 J", "confidence": 90}, "use a probability above 0 and below 1"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    limits: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message) as raised:
        JobLimits.parse(**limits)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_what_surely_fits_is_allowed() -> None:
    verdict = JobLimits.parse("1 kJ", "10 min", "1 GB").judge(job(), 5e8)
    assert verdict.refusal is None
    assert verdict.probability > 0.99
    assert all(need.excess < 0 for need in verdict.needs)


def test_a_refusal_says_what_would_be_exceeded() -> None:
    verdict = JobLimits.parse("105 J", 1000, "400 MB").judge(job(), 5e8)
    assert verdict.refusal == (
        "energy of the job: 100 J, the limit is 105 J: inside with 68.7 %, 90.0 % are asked for;"
        " memory of the job: 500 MB, the limit is 400 MB"
    )
    assert verdict.probability == 0.0  # memory is over


def test_joules_of_a_step_are_those_of_all_steps() -> None:
    assert JobLimits.parse("5.1 J/step", confidence=0.5).judge(job()).refusal is None
    assert JobLimits.parse("4.9 J/step", confidence=0.5).judge(job()).refusal is not None


@pytest.mark.parametrize("method", ["additive", "paper"])
@given(
    mean=st.floats(1e-3, 1e6),
    relative=st.floats(0, 2),
    confidence=st.floats(0.01, 0.99),
    slack=st.floats(0.2, 5),
)
def test_bound_and_probability_agree(
    method: str, mean: float, relative: float, confidence: float, slack: float
) -> None:
    """A limit above the bound is one that is kept with the asked confidence, and no other."""
    limit = slack * mean
    most = bound(mean, relative * mean, confidence, method)
    if most != pytest.approx(limit, rel=1e-9):
        held = probability_within(limit, mean, relative * mean, method) >= confidence
        assert held == (most <= limit)


def test_the_bound_of_95_percent_is_the_end_of_the_interval() -> None:
    for method in ("additive", "paper"):
        _, high = interval(7.0, 0.7, method)
        assert bound(7.0, 0.7, 0.95, method) == pytest.approx(high)
        assert probability_within(high, 7.0, 0.7, method) == pytest.approx(0.95)


def test_an_estimate_without_doubt_is_in_or_out() -> None:
    assert probability_within(1.0, 1.0, 0.0) == 1.0
    assert probability_within(0.99, 1.0, 0.0) == 0.0


def test_layers_that_are_not_known_are_named() -> None:
    estimate = Estimate((), 1.0, 0.1, None, None, uncovered=(layer("fft"), layer("fft")))
    with pytest.raises(NotCovered, match="does not cover fft, so no budget"):
        JobLimits.parse("5 J").judge(estimate)


def test_a_time_needs_seconds() -> None:
    with pytest.raises(NotCovered, match="no seconds"):
        JobLimits.parse(time="5 s").judge(job(time_s=None))
