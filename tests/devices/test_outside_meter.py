"""Meters that watch from outside: opened when needed, no finer than their readings are apart."""

from __future__ import annotations

import pytest

from ampere.devices.outside_meter import OutsideMeter, is_outside
from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance, Resolution


@pytest.mark.parametrize(
    ("name", "outside"), [("shelly", True), ("android", True), ("cpu", False), ("volta", False)]
)
def test_who_watches_from_outside(name: str, outside: bool) -> None:
    assert is_outside(name) is outside


def test_joules_of_a_burst_are_those_between_two_readings() -> None:
    meter = OutsideMeter("fake", {"step_j": 3.0, "step_s": 0.1})
    assert meter.provenance is Provenance.SIMULATED
    assert meter.energy_since(meter.read(), burst_s=0.1).energy_j == 3.0
    with pytest.raises(MeterFault, match="did not move"):
        still = OutsideMeter("fake", {"step_s": 0.1})
        still.energy_since(still.read(), burst_s=0.1)


def test_it_tells_no_finer_than_its_readings_are_apart_beyond_the_bursts() -> None:
    meter = OutsideMeter("fake", {"step_j": 3.0, "step_s": 9.0})
    assert meter.resolution == Resolution()
    for _ in range(3):
        meter.energy_since(meter.read(), burst_s=1.0)
    assert meter.resolution == Resolution(period_s=pytest.approx(8.0))
    meter.close()
    assert meter.resolution == Resolution(period_s=pytest.approx(8.0))


def test_it_is_opened_once_and_again_after_it_was_closed() -> None:
    meter = OutsideMeter("fake", {})
    first = meter.open()
    assert meter.open() is first
    meter.close()
    meter.close()
    assert meter.open() is not first


def test_settings_that_it_does_not_take_are_told_when_it_is_opened() -> None:
    meter = OutsideMeter("fake", {"volts": 230.0})
    with pytest.raises(MeterError, match="its settings are: step_j, step_s"):
        meter.open()
