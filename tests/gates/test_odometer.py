"""The odometer: joules that were spent, whatever the meter does."""

from __future__ import annotations

import math

import pytest

from ampere.errors import MeterError
from ampere.gates.odometer import Odometer
from ampere.meters.base import Provenance, Resolution
from gates.worlds import HandMeter


class Time:
    def __init__(self) -> None:
        self.now_s = 50.0
        self.slept_s = 7.0


@pytest.fixture
def time() -> Time:
    return Time()


def odometer(meter: HandMeter, time: Time) -> Odometer:
    return Odometer(meter, lambda: time.now_s, lambda: time.slept_s)


def spend(meter: HandMeter, time: Time, energy_j: float, time_s: float) -> None:
    meter.energy_j += energy_j
    time.now_s += time_s


def test_counts_from_where_the_meter_stands(time: Time) -> None:
    meter = HandMeter()
    meter.energy_j = 1e6
    counted = odometer(meter, time)
    spend(meter, time, 5.0, 1.0)
    look = counted.look()
    assert (look.spent_j, look.time_s, look.filled_j, look.failing) == (5.0, 1.0, 0.0, False)


def test_a_gap_of_a_counter_is_closed_by_its_own_total(time: Time) -> None:
    meter = HandMeter()
    counted = odometer(meter, time)
    spend(meter, time, 5.0, 1.0)
    counted.look()
    meter.fault = MeterError("permission denied")
    spend(meter, time, 12.0, 2.0)
    failing = counted.look()
    assert failing.failing and failing.spent_j == pytest.approx(15.0)  # 5 W as before
    assert failing.filled_j == pytest.approx(10.0)
    assert "permission denied" in failing.notes[0]
    assert not counted.look().notes  # told once
    meter.fault = None
    again = counted.look()
    assert (again.spent_j, again.filled_j) == (17.0, 0.0)
    assert again.notes == ("the meter hand answers again",)


def test_a_battery_that_was_charged_meanwhile_keeps_what_was_filled_in(time: Time) -> None:
    class BatteryMeter(HandMeter):
        provenance = Provenance.BATTERY

    meter = BatteryMeter()
    counted = odometer(meter, time)
    spend(meter, time, 5.0, 1.0)
    counted.look()
    meter.fault = MeterError("AC is online")
    time.now_s += 10.0
    counted.look()
    meter.fault = None
    spend(meter, time, 1.0, 0.1)
    assert counted.look().spent_j == pytest.approx(5.0 + 50.0, rel=0.03)


def test_a_total_that_begins_anew(time: Time) -> None:
    meter = HandMeter()
    counted = odometer(meter, time)
    spend(meter, time, 5.0, 1.0)
    counted.look()
    meter.energy_j = 1.0
    time.now_s += 1.0
    look = counted.look()
    assert look.spent_j == pytest.approx(10.0)
    assert "began anew" in look.notes[0]
    spend(meter, time, 5.0, 1.0)
    assert counted.look().spent_j == pytest.approx(15.0)


def test_a_meter_that_stands_still_is_taken_for_dead(time: Time) -> None:
    meter = HandMeter()
    counted = odometer(meter, time)
    spend(meter, time, 5.0, 1.0)
    counted.look()
    for _ in range(100):
        time.now_s += 1.0
        look = counted.look()
    assert look.failing and look.spent_j > 100
    assert any("has not moved" in text for text in (counted._failing or "",))


def test_numbers_that_are_none(time: Time) -> None:
    meter = HandMeter()
    counted = odometer(meter, time)
    meter.energy_j = math.nan
    time.now_s += 1.0
    look = counted.look()
    assert look.failing and look.spent_j == 0.0


def test_sleep_is_said_and_its_seconds_do_not_count(time: Time) -> None:
    meter = HandMeter()
    counted = odometer(meter, time)
    time.slept_s += 3600.0
    spend(meter, time, 2.0, 1.0)
    look = counted.look()
    assert look.notes == ("the machine slept for 1 h: these seconds do not count",)
    assert look.time_s == 1.0


def test_what_a_coarse_meter_may_hide(time: Time) -> None:
    meter = HandMeter(Resolution(energy_j=10.0, period_s=4.0))
    counted = odometer(meter, time)
    spend(meter, time, 20.0, 4.0)
    counted.look()
    time.now_s += 100.0
    assert counted.look().doubt_j == pytest.approx(10.0 + 5.0 * 4.0)


def test_one_that_does_not_answer_at_first_is_told_at_once(time: Time) -> None:
    meter = HandMeter()
    meter.fault = MeterError("gone")
    with pytest.raises(MeterError, match="gone"):
        odometer(meter, time)


def test_closing_may_fail(time: Time) -> None:
    class Stubborn(HandMeter):
        def close(self) -> None:
            raise OSError("busy")

    odometer(Stubborn(), time).close()
