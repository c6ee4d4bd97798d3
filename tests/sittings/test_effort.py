"""Effort: bursts as long as the meter needs them, and no longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.errors import MeterError
from ampere.meters.base import Resolution
from ampere.sittings.effort import Effort, suited
from ampere.sittings.measure import measure
from fakes import FakeDevice

from .devices import JOBS, NOMINAL


def test_a_meter_that_tells_finely_gets_the_bursts_that_were_asked_for() -> None:
    for resolution in (Resolution(), Resolution(energy_j=1e-4, period_s=1e-3)):
        assert suited(Effort(), resolution, power_w=4.0) == Effort()
    long = Effort(burst_s=10.0)
    assert suited(long, Resolution(period_s=0.1), power_w=4.0) == long


def test_a_sensor_of_ten_hertz_gets_fewer_and_longer_bursts() -> None:
    found = suited(Effort(), Resolution(period_s=0.1), power_w=4.0)
    assert found.burst_s == pytest.approx(0.1 / (2 * 0.015))  # four of them average to the target
    assert (found.min_rounds, found.max_rounds) == (4, 8)
    assert (found.target, found.warmup_s) == (Effort().target, Effort().warmup_s)
    few = suited(Effort(min_rounds=2, max_rounds=3), Resolution(period_s=0.1), power_w=4.0)
    assert (few.min_rounds, few.max_rounds) == (2, 3)


def test_a_battery_gets_minutes_if_less_is_asked_of_it() -> None:
    battery = Resolution(energy_j=36.0, period_s=30.0)
    assert suited(Effort(target=0.05), battery, power_w=4.0).burst_s == pytest.approx(300.0)
    saving = suited(Effort(target=0.1), battery, power_w=0.6)  # a step takes 60 s, not 30
    assert saving.burst_s == pytest.approx(300.0)


@pytest.mark.parametrize(
    ("resolution", "power_w", "minutes"),
    [
        (Resolution(energy_j=36.0, period_s=30.0), 4.0, "67 minutes"),
        (Resolution(energy_j=36.0, period_s=30.0), 0.5, "160 minutes"),
        (Resolution(energy_j=36.0), 0.0, "inf minutes"),
    ],
)
def test_what_would_take_too_long_is_refused(
    resolution: Resolution, power_w: float, minutes: str
) -> None:
    with pytest.raises(MeterError, match="--precision") as caught:
        suited(Effort(), resolution, power_w)
    assert minutes in str(caught.value)
    assert "\n" not in str(caught.value)
    device = FakeDevice()
    device.resolution = replace(resolution, energy_j=1000 * resolution.energy_j)
    with pytest.raises(MeterError, match="another meter"):
        measure(device, JOBS, NOMINAL)
