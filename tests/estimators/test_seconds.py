"""Seconds: their own noise and errors, beside joules that may be far coarser."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.core.arrays import Ints
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.fitting import fit_additive
from ampere.estimators.processes.sum_process import SumProcess
from ampere.estimators.processes.totals import Context
from ampere.estimators.seconds import time_error
from ampere.records.measurement import Measurement

FRESH = 12
SPREAD = 0.1 / math.sqrt(3)  # of the mean of two at 0.9 and two at 1.1


def layer(width: int) -> Layer:
    features = Features(6e3 * width**2, 8e2 * width, 4.0 * width**2)
    kind = LayerKind("conv", Role.HIDDEN, "conv", {"batch": 8})
    return Layer("conv", kind, Widths({"width": width}), features)


def network(rng: random.Random) -> tuple[Layer, ...]:
    return tuple(layer(8 * rng.randint(1, 16)) for _ in range(rng.randint(1, 4)))


def joules(layers: Sequence[Layer]) -> float:
    return 1e-3 + sum(2e-3 + 3e-10 * (each.features.flops or 0.0) for each in layers)


def seconds(layers: Sequence[Layer]) -> float:
    return joules(layers) / 4


def rows(meter: float, clock: float, n: int = 24) -> list[Measurement]:
    rng = random.Random(1)
    drawn = []
    for _ in range(n):
        layers = network(rng)
        noise_j, noise_s = (math.exp(rng.gauss(0.0, std)) for std in (meter, clock))
        drawn.append(Measurement(layers, noise_j * joules(layers), noise_s * seconds(layers)))
    return drawn


@cache
def fitted(meter: float, clock: float) -> AdditiveFit:
    return fit_additive(rows(meter, clock))


def _part(process: SumProcess, chosen: Ints) -> SumProcess:
    """The same, of whose rows only some are asked for their noise."""
    linear = replace(process.linear, log_size=process.linear.log_size[chosen])
    return replace(process, rows=process.rows[chosen], linear=linear)


def doubts(fit: AdditiveFit) -> tuple[float, float]:
    """Of joules and of seconds, relative, in the middle over unseen networks."""
    rng = random.Random(2)
    totals = [fit.predict(network(rng)).total for _ in range(FRESH)]
    of_joules = [total.energy_j_std / total.energy_j for total in totals]
    of_seconds = [(total.time_s_std or 0.0) / (total.time_s or 1.0) for total in totals]
    return float(np.median(of_joules)), float(np.median(of_seconds))


def test_seconds_do_not_have_the_noise_of_a_coarse_meter() -> None:
    of_joules, of_seconds = doubts(fitted(0.15, 0.01))
    assert of_joules > 0.1
    assert of_seconds < 0.05


def test_joules_do_not_have_the_noise_of_a_coarse_clock() -> None:
    of_joules, of_seconds = doubts(fitted(0.01, 0.15))
    assert of_joules < 0.05
    assert of_seconds > 0.1


def test_seconds_of_a_coarse_meter_are_right_nevertheless() -> None:
    fit, rng = fitted(0.15, 0.01), random.Random(3)
    for _ in range(FRESH):
        layers = network(rng)
        assert fit.predict(layers).total.time_s == pytest.approx(seconds(layers), rel=0.1)


def test_rows_without_seconds_do_not_make_others_doubtful() -> None:
    told = rows(0.15, 0.01)
    untimed = Measurement(told[0].layers, told[0].energy_j)
    _, of_seconds = doubts(fit_additive([untimed, *told[1:]]))
    assert of_seconds < 0.06


def test_a_process_as_exact_as_itself_is_itself() -> None:
    energy = fitted(0.03, 0.03).energy
    same = energy.as_exact_as(energy, np.arange(len(energy.rows)))
    np.testing.assert_allclose(same.factor.whitener, energy.factor.whitener, atol=1e-6)


@pytest.mark.parametrize(("meter", "clock"), [(0.15, 0.01), (0.03, 0.03), (0.01, 0.03)])
def test_who_reads_more_exactly_is_never_less_sure(meter: float, clock: float) -> None:
    fit = fitted(meter, clock)
    assert fit.time is not None
    every = np.arange(len(fit.measurements))
    assert len(fit.timed) == len(every)
    exact, rng = fit.energy.as_exact_as(fit.time, every), random.Random(4)
    encoded = fit.encoder.encode(network(rng))
    counts, context = np.eye(len(encoded)), Context.at(np.zeros(len(encoded)))
    _, own = fit.energy.expected(encoded, counts, context)
    _, other = exact.expected(encoded, counts, context)
    assert (other <= own * (1 + 1e-6) + 1e-12).all()


@settings(deadline=None, max_examples=20)
@given(st.sets(st.integers(0, 23), min_size=2))
def test_fewer_rows_leave_more_open(numbers: set[int]) -> None:
    energy = fitted(0.03, 0.03).energy
    chosen = np.array(sorted(numbers))
    whole = energy.as_exact_as(energy, np.arange(len(energy.rows)))
    few = energy.as_exact_as(_part(whole, chosen), chosen)
    encoded = energy.layers[:5]
    counts, context = np.eye(5), Context.at(np.zeros(5))
    _, own = energy.expected(encoded, counts, context)
    _, other = few.expected(encoded, counts, context)
    assert (other >= own * (1 - 1e-6) - 1e-12).all()


@pytest.mark.parametrize(
    ("bursts", "doubt", "error"),
    [
        ({}, 0.0, 0.0),
        ({}, 0.2, 0.2),
        ({"time_s": [1.0, 1.0]}, 0.1, 0.1),
        ({"time_s": [1.0, 1.0, 1.0, 1.0]}, 0.0, 0.0),
        ({"time_s": [0.9, 0.9, 1.1, 1.1]}, 0.0, SPREAD),
        ({"time_s": [0.9, None, 0.9, 1.1, 1.1, 0.0]}, 0.3, math.hypot(SPREAD, 0.3)),
        ({"time_s": None}, 0.0, 0.0),
    ],
)
def test_the_error_of_seconds_is_that_of_their_bursts(
    bursts: dict[str, object], doubt: float, error: float
) -> None:
    row = Measurement((layer(8),), 1.0, 1.0, spread=0.5, doubt=doubt, bursts=bursts)
    assert time_error(row) == pytest.approx(error, abs=1e-12)
