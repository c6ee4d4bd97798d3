"""Drift: what all have in common is divided out, and nothing where there is nothing."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.sittings.drift import drift_factors

ROUNDS = 16


def wave(rounds: int = ROUNDS) -> list[float]:
    return [1 + 0.15 * math.sin(2 * math.pi * r / 9) for r in range(rounds)]


def noisy(level: float, factors: list[float], noise: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [level * factor * math.exp(rng.gauss(0, noise)) for factor in factors]


def spread(values: list[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values)


def test_a_drift_that_all_share_is_divided_out_exactly() -> None:
    own = noisy(3.0, wave(), 0.0, 0)
    factors = drift_factors(own, [noisy(7.0, wave(), 0.0, 0)], noisy(2.0, wave(), 0.0, 0), 2.0)
    found = [value / factor for value, factor in zip(own, factors, strict=True)]
    assert spread(found) < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_drift_leave_noise(seed: int) -> None:
    own = noisy(3.0, wave(), 0.03, seed)
    others = [noisy(1.0 + k, wave(), 0.03, 10 * seed + k + 1) for k in range(3)]
    factors = drift_factors(own, others, noisy(2.0, wave(), 0.03, 99 + seed), 2.0)
    found = [value / factor for value, factor in zip(own, factors, strict=True)]
    assert spread(found) < 0.6 * spread(own)


def test_on_a_calm_machine_hardly_anything_is_followed() -> None:
    flat = [1.0] * ROUNDS
    ratios = []
    for seed in range(200):
        own = noisy(3.0, flat, 0.05, 5 * seed)
        others = [noisy(1.0, flat, 0.05, 5 * seed + k) for k in (1, 2, 3)]
        factors = drift_factors(own, others, noisy(2.0, flat, 0.05, 5 * seed + 4), 2.0)
        found = [value / factor for value, factor in zip(own, factors, strict=True)]
        ratios.append(statistics.fmean(found) / 3.0)
    alone = 0.05 / math.sqrt(ROUNDS)
    assert statistics.pstdev(ratios) < 1.3 * alone  # dividing by the reference alone: 1.41


def test_one_that_stumbles_does_not_pull_the_others() -> None:
    flat = [1.0] * ROUNDS
    own, others = list(flat), [list(flat) for _ in range(3)]
    others[1][5] = 10.0
    assert drift_factors(own, others, flat, 1.0) == pytest.approx(flat)


@given(st.floats(0.2, 5.0))
def test_the_reference_keeps_the_scale(pace: float) -> None:
    slower = [pace] * ROUNDS
    factors = drift_factors([3.0 * pace] * ROUNDS, [], slower, 1.0)
    assert factors == pytest.approx(slower)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_few_rounds_are_divided_by_the_reference(rounds: int) -> None:
    own = noisy(3.0, wave(rounds), 0.0, 0)
    factors = drift_factors(own, [], noisy(2.0, wave(rounds), 0.0, 0), 2.0)
    assert all(
        value / factor == pytest.approx(3.0, rel=0.2)
        for value, factor in zip(own, factors, strict=True)
    )
