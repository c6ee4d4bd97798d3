"""The reference: idle watts and the scale, also under a meter that hardly moves."""

from __future__ import annotations

import pytest

from ampere.core.workloads import IDLE
from ampere.errors import MeterError
from ampere.meters.base import Resolution
from ampere.sittings.reference import take_reference
from fakes import FakeDevice

from .devices import NOMINAL, Counting, Faulty, Sampling, coarse


def test_calibration_recovers_the_idle_power_and_the_reference() -> None:
    found = take_reference(FakeDevice())
    assert found.idle_w == pytest.approx(NOMINAL.idle_w)
    assert found.time_s == pytest.approx(NOMINAL.time_s)
    assert found.energy_j == pytest.approx(NOMINAL.energy_j)


@coarse
def test_a_coarse_meter_is_watched_until_the_idle_power_is_known(
    kind: type[Counting] | type[Sampling], size: float
) -> None:
    found = take_reference(kind(size))
    assert found.idle_w == pytest.approx(NOMINAL.idle_w, rel=0.1)
    assert found.energy_j == pytest.approx(NOMINAL.energy_j, rel=0.02)
    assert found.time_s == pytest.approx(NOMINAL.time_s)


@pytest.mark.parametrize("resolution", [Resolution(), Resolution(period_s=0.01)])
def test_a_fault_while_the_device_idles_is_no_idle_power(resolution: Resolution) -> None:
    device = Faulty({1, 2}, IDLE)
    device.resolution = resolution
    assert take_reference(device).idle_w == pytest.approx(NOMINAL.idle_w)


def test_a_meter_that_stands_still_while_the_device_idles_cannot_be_used() -> None:
    with pytest.raises(MeterError, match="does not move while the device is idle"):
        take_reference(Faulty(range(1000), IDLE))
