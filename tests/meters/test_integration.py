from __future__ import annotations

import math
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Meter, Resolution, energy_between
from ampere.meters.integration import MOST_W, Integral, PowerMeter
from ampere.meters.sampler import GAP

from .contract import MeterContract
from .windows import window_of

PERIOD_S = 0.1
POWERS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    # watts at a time, and joules from 0 to a time
    "steady": (lambda t: 10.0, lambda t: 10 * t),
    "ramp": (lambda t: 2 + t, lambda t: 2 * t + t**2 / 2),
    "sine": (lambda t: 10 + 6 * math.sin(2 * t), lambda t: 10 * t + 3 - 3 * math.cos(2 * t)),
    "step": (lambda t: 8.0 if t < 4.03 else 14.0, lambda t: 8 * t + 6 * max(0.0, t - 4.03)),
}


def feed(integral: Integral, *powers_w: float, start_s: float = 0.0) -> float:
    """Samples of one period each; returns the time of the last."""
    for number, power_w in enumerate(powers_w):
        integral.add(start_s + number * PERIOD_S, power_w)
    return start_s + (len(powers_w) - 1) * PERIOD_S


class TestKnownEnergies:
    @pytest.mark.parametrize("seed", range(10))
    @pytest.mark.parametrize("lost", [0.0, 0.05])
    @pytest.mark.parametrize("name", POWERS)
    def test_window_that_the_resolution_asks_for_is_good_to_a_percent(
        self, name: str, lost: float, seed: int
    ) -> None:
        rng = random.Random(seed)
        power_w, energy_j = POWERS[name]
        window_s = Resolution(period_s=PERIOD_S).window_s(power_w=10.0, error=0.01)
        integral = Integral(PERIOD_S)
        samples = int(window_s / PERIOD_S)
        jitters = (rng.uniform(-0.4, 0.4) for _ in range(1, samples))
        times = [(number + jitter) * PERIOD_S for number, jitter in enumerate(jitters, start=1)]
        integral.add(0.0, power_w(0.0))
        before_j = integral.look(0.0)
        for time_s in [*times, window_s]:
            integral.add(time_s, math.nan if rng.random() < lost else power_w(time_s))
        assert integral.look(window_s) - before_j == pytest.approx(energy_j(window_s), rel=0.01)

    @given(st.lists(st.tuples(st.floats(1e-3, 0.9), st.floats(0, 50)), min_size=1))
    def test_straight_lines_are_exact(self, steps: list[tuple[float, float]]) -> None:
        integral = Integral(PERIOD_S)
        time_s, power_w, expected_j = 0.0, 1.0, 0.0
        integral.add(time_s, power_w)
        for step_s, next_w in steps:
            expected_j += step_s * (power_w + next_w + 1) / 2
            time_s, power_w = time_s + step_s, next_w + 1
            integral.add(time_s, power_w)
        assert integral.look(time_s) == pytest.approx(expected_j)

    def test_lost_samples_are_bridged(self) -> None:
        integral = Integral(PERIOD_S)
        end_s = feed(integral, 2, math.nan, 0, -5, 10)
        assert integral.look(end_s) == pytest.approx(6 * 4 * PERIOD_S)

    def test_sample_lost_at_the_end_of_a_window_costs_no_energy(self) -> None:
        integral = Integral(PERIOD_S)
        end_s = feed(integral, *[7.0] * 9, math.nan)
        assert integral.look(end_s) == pytest.approx(7 * end_s)
        end_s = feed(integral, 7.0, start_s=end_s + PERIOD_S)
        assert integral.look(end_s) == pytest.approx(7 * end_s)

    def test_looking_more_often_changes_nothing(self) -> None:
        often, once = Integral(PERIOD_S), Integral(PERIOD_S)
        for number in range(20):
            often.add(number * PERIOD_S, 5 + number)
            once.add(number * PERIOD_S, 5 + number)
            often.look(number * PERIOD_S)
        assert often.look(19 * PERIOD_S) == once.look(19 * PERIOD_S)

    def test_idle_power_is_subtracted(self) -> None:
        integral = Integral(PERIOD_S, idle_w=2.5)
        end_s = feed(integral, 4, 6, 4)
        assert integral.look(end_s) == pytest.approx((5 - 2.5) * end_s)
        assert integral.look(end_s + 0.1) == pytest.approx(2.5 * end_s + 1.5 * 0.1)

    def test_one_absurd_sample_leaves_the_rest_as_it_is(self) -> None:
        """Joules without end would stay so for as long as the meter is open."""
        integral = Integral(PERIOD_S)
        end_s = feed(integral, 5, 1e308, 1.7e308, 5)
        assert integral.look(end_s) == pytest.approx(5 * end_s)

    def test_samples_that_are_believed_are_told(self) -> None:
        integral = Integral(PERIOD_S)
        assert [integral.add(time_s, 5.0) for time_s in (0.0, 0.1, 0.1, 0.05)] == [
            True,
            True,
            False,
            False,
        ]
        assert not integral.add(0.2, math.nan)

    def test_samples_out_of_order_are_left_out(self) -> None:
        integral = Integral(PERIOD_S)
        integral.add(0.0, 10)
        integral.add(0.2, 10)
        for time_s in (0.1, 0.2, -3.0):
            integral.add(time_s, 1e6)
        assert integral.look(0.2) == pytest.approx(2.0)


class TestFaults:
    @pytest.mark.parametrize("bad_w", [math.nan, math.inf, -math.inf, 0.0, -3.0, 1e308, 2 * MOST_W])
    def test_impossible_samples_for_too_long_are_told_once(self, bad_w: float) -> None:
        integral = Integral(PERIOD_S)
        end_s = feed(integral, 5, 5, *[bad_w] * (GAP + 1), 5)
        shown = re.escape(f"it showed {bad_w:g} W")
        with pytest.raises(MeterFault, match=f"nothing usable for .* s, {shown}"):
            integral.look(end_s)
        before_j = integral.look(end_s)
        assert integral.look(feed(integral, 5, 5, start_s=end_s)) == pytest.approx(before_j + 0.5)

    def test_silence_is_told_as_long_as_it_lasts(self) -> None:
        integral = Integral(PERIOD_S)
        end_s = feed(integral, 5, 5)
        assert integral.look(end_s + GAP * PERIOD_S) > 0
        for _ in range(2):
            with pytest.raises(MeterFault, match=r"says nothing usable$"):
                integral.look(end_s + (GAP + 1) * PERIOD_S)

    def test_looks_do_not_hide_a_silence(self) -> None:
        integral = Integral(PERIOD_S)
        end_s = feed(integral, 5, 5)
        for number in range(1, GAP + 1):
            integral.look(end_s + number * PERIOD_S)
        with pytest.raises(MeterFault):
            integral.look(end_s + (GAP + 1) * PERIOD_S)

    def test_gap_is_told_once(self) -> None:
        integral = Integral(PERIOD_S)
        end_s = feed(integral, 5, 5)
        integral.add(end_s + 3, 5)
        with pytest.raises(MeterFault, match=r"nothing usable for 3 s$"):
            integral.look(end_s + 3)
        assert integral.look(end_s + 3) > 0

    def test_nothing_at_all_is_a_fault(self) -> None:
        integral = Integral(PERIOD_S)
        with pytest.raises(MeterFault, match=r"says nothing usable$"):
            integral.look(0.0)
        integral.add(0.0, 0.0)
        with pytest.raises(MeterFault, match="it shows 0 W"):
            integral.look(0.0)
        integral.add(0.1, 3.0)
        assert integral.look(0.1) == 0

    def test_frozen_sensor_is_told_until_it_moves(self) -> None:
        integral = Integral(PERIOD_S, frozen_s=0.5)
        end_s = feed(integral, 4, *[5.0] * 5)
        assert integral.look(end_s) > 0
        end_s = feed(integral, *[5.0] * 5, start_s=end_s + PERIOD_S)
        with pytest.raises(MeterFault, match=r"shown 5 W for 0\.9 s: it is stuck"):
            integral.look(end_s)
        end_s = feed(integral, 5.0, 5.1, start_s=end_s + PERIOD_S)
        with pytest.raises(MeterFault, match="stuck"):
            integral.look(end_s)
        assert integral.look(feed(integral, 5.2, start_s=end_s + PERIOD_S)) > 0

    def test_noise_around_zero_is_no_fault_for_a_lab_meter(self) -> None:
        integral = Integral(PERIOD_S, floor_w=-0.05)
        end_s = feed(integral, *[0.01, -0.01] * 20, 0.01)
        assert integral.look(end_s) == pytest.approx(0.0, abs=1e-12)
        end_s = feed(integral, *[-0.06] * 20, 1, start_s=end_s + PERIOD_S)
        with pytest.raises(MeterFault, match=r"it showed -0.06 W"):
            integral.look(end_s)

    @given(
        st.lists(st.tuples(st.floats(-1, 30), st.floats(allow_nan=True))),
        st.floats(1e-3, 10),
        st.floats(0, 100),
    )
    def test_any_samples_give_a_number_or_a_fault(
        self, samples: list[tuple[float, float]], period_s: float, frozen_s: float
    ) -> None:
        integral = Integral(period_s, frozen_s=frozen_s)
        for time_s, power_w in samples:
            integral.add(time_s, power_w)
            try:
                assert integral.look(time_s) >= 0
            except MeterFault as fault:
                assert "\n" not in str(fault)


class Sensor(PowerMeter):
    """Shows `watts`, or raises it if it is an exception."""

    name: ClassVar[str] = "sensor"
    summary: ClassVar[str] = "a sensor that shows what it is told to"

    def __init__(self, watts: float = 20.0, period_s: float = 0.005, idle_w: float = 0.0) -> None:
        self.watts: float | Exception = watts
        self.samples = 0
        super().__init__(period_s, idle_w)

    def power_w(self) -> float:
        self.samples += 1
        if isinstance(self.watts, Exception):
            raise self.watts
        return self.watts


@pytest.fixture
def sensor() -> Iterator[Sensor]:
    sensor = Sensor()
    yield sensor
    sensor.close()


class TestSensor(MeterContract):
    driver: ClassVar[type[Meter]] = Sensor

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"watts": 12.5, "period_s": 0.01, "idle_w": 1.0}


def test_steady_power_is_exact(sensor: Sensor) -> None:
    window = window_of(sensor, 0.05)
    assert window.energy_j == pytest.approx(20 * window.time_s)


def test_thread_sees_what_happens_between_two_looks() -> None:
    sensor = Sensor(watts=10.0, period_s=0.01)

    def work() -> None:
        time.sleep(0.05)
        sensor.watts = 1000.0
        time.sleep(0.1)
        sensor.watts = 10.0
        time.sleep(0.05)

    window = window_of(sensor, work)
    sensor.close()
    above_j = window.energy_j - 10 * window.time_s
    assert above_j > 990 * 0.05  # the pulse was 0.1 s; schedulers are rough


def test_idle_power_of_a_sensor_is_subtracted() -> None:
    sensor = Sensor(watts=20.0, idle_w=15.0)
    window = window_of(sensor, 0.02)
    sensor.close()
    assert window.energy_j == pytest.approx(5 * window.time_s)


def test_unusable_sensor_is_told_and_recovers(sensor: Sensor) -> None:
    sensor.watts = MeterError("someone pulled the plug")
    for _ in range(2):
        with pytest.raises(MeterError, match="pulled the plug"):
            sensor.read()
    sensor.watts = 20.0
    readings = []
    while len(readings) < 2:
        try:
            readings.append(sensor.read())
        except MeterFault:  # if it was away for longer than a gap
            continue
        time.sleep(0.01)
    window = energy_between(*readings)
    assert window.energy_j == pytest.approx(20 * window.time_s)


def test_single_faults_are_bridged() -> None:
    sensor = Sensor(period_s=10.0)
    before = sensor.read()
    sensor.watts = MeterFault("not now")
    time.sleep(0.01)
    sensor.read()
    sensor.watts = 20.0
    window = energy_between(before, sensor.read())
    sensor.close()
    assert window.energy_j == pytest.approx(20 * window.time_s)


def test_broken_sensor_is_a_fault_after_a_while() -> None:
    sensor = Sensor(period_s=0.001)
    sensor.watts = 0.0
    time.sleep(0.05)
    with pytest.raises(MeterFault, match="it shows 0 W"):
        sensor.read()
    sensor.close()


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), OSError(5, "I/O"), KeyError("W")])
def test_whatever_a_driver_raises_is_told_once_and_sampling_goes_on(error: Exception) -> None:
    sensor = Sensor(period_s=0.02)
    first = sensor.read()
    sensor.watts = error
    time.sleep(0.1)
    sensor.watts = 20.0
    time.sleep(0.1)
    with pytest.raises(MeterFault, match=r"a sample failed \(.*\); repair the meter's driver"):
        sensor.read()
    again = sensor.read()
    assert again.samples is not None and first.samples is not None
    assert again.samples > first.samples
    sensor.close()


def test_driver_that_shows_no_number_is_a_fault() -> None:
    sensor = Sensor(period_s=0.02)
    sensor.watts = None  # type: ignore[assignment]
    time.sleep(0.1)
    sensor.watts = 20.0
    with pytest.raises(MeterFault, match="a sample failed"):
        sensor.read()
    sensor.close()


def test_only_samples_of_the_thread_that_can_be_true_count() -> None:
    quiet = Sensor(period_s=1000.0)
    assert [quiet.read().samples for _ in range(5)] == [0] * 5
    quiet.close()
    sensor = Sensor(period_s=0.02)

    def wait() -> int:
        taken = sensor.samples
        while sensor.samples < taken + 3:
            time.sleep(0.002)
        return sensor.read().samples or 0

    good = wait()
    assert good >= 2
    sensor.watts = MeterFault("not now")
    lost = wait()
    assert lost <= good + 1
    assert wait() == lost
    sensor.close()


def test_closing_ends_the_thread() -> None:
    sensor = Sensor(period_s=0.001)
    threads = threading.active_count()
    sensor.close()
    deadline = time.perf_counter() + 5
    while threading.active_count() >= threads and time.perf_counter() < deadline:
        time.sleep(0.001)
    assert threading.active_count() == threads - 1
    samples = sensor.samples
    time.sleep(0.01)
    assert sensor.samples == samples


@pytest.mark.parametrize("period_s", [0.0, -1.0, math.nan, math.inf])
def test_impossible_period_is_refused(period_s: float) -> None:
    with pytest.raises(MeterError, match=r"meter sensor: period_s=.* must be above 0"):
        Sensor(period_s=period_s)


@pytest.mark.parametrize("idle_w", [-1.0, math.nan, math.inf])
def test_impossible_idle_power_is_refused(idle_w: float) -> None:
    with pytest.raises(MeterError, match=r"meter sensor: idle_w=.* must be watts, 0 or more"):
        Sensor(idle_w=idle_w)
