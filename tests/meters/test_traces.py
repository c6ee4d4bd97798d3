from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters.drivers.log import PULSE
from ampere.meters.trace_files import read_trace
from ampere.meters.traces import PowerTrace

Log = Callable[[str], str]


class TestTrace:
    def test_ends_are_interpolated(self) -> None:
        trace = PowerTrace([1, 2, 4], [100, 110, 110])
        assert trace.energy_between(1.25, 1.75) == pytest.approx(5)
        assert trace.energy_between(1.5, 3) == pytest.approx(5)
        assert trace.energy_between(1, 4) == 10
        assert trace.energy_between(4, 4) == 0
        assert trace.period_s == 1.5

    @pytest.mark.parametrize(
        ("start_s", "end_s"), [(0.9, 2), (1, 4.1), (math.nan, 2), (1, math.inf)]
    )
    def test_what_was_not_recorded_is_not_known(self, start_s: float, end_s: float) -> None:
        with pytest.raises(MeterError, match=r"the log covers 1.000 to 4.000 s"):
            PowerTrace([1, 2, 4], [100, 110, 110]).energy_between(start_s, end_s)

    def test_clock_that_runs_back_is_a_fault(self) -> None:
        with pytest.raises(MeterFault, match="ran back by 1 s"):
            PowerTrace([1, 2, 4], [100, 110, 110]).energy_between(3, 2)

    @given(st.lists(st.floats(0.01, 100), min_size=3, max_size=30), st.data())
    def test_parts_add_up_to_the_whole(self, powers: list[float], data: st.DataObject) -> None:
        text = "".join(f"{time_s},{power_w}\n" for time_s, power_w in enumerate(powers))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.csv"
            path.write_text("time_s,power_w\n" + text)
            trace = read_trace(str(path))
        cut_s = data.draw(st.floats(0, len(powers) - 1))
        whole_j = trace.energy_between(trace.start_s, trace.end_s)
        parts_j = trace.energy_between(0, cut_s) + trace.energy_between(cut_s, trace.end_s)
        assert parts_j == pytest.approx(whole_j)
        assert whole_j == pytest.approx(sum(powers) - (powers[0] + powers[-1]) / 2)


BEGAN_S = 12.34


def load_w(
    time_s: float, began_s: float = BEGAN_S, idle_w: float = 3.0, busy_w: float = 8.0
) -> float:
    for number, seconds in enumerate(PULSE):
        if began_s <= time_s < began_s + seconds:
            return idle_w if number % 2 else busy_w
        began_s += seconds
    return idle_w


def trace_of(
    power_w: Callable[[float], float], step_s: float = 0.01, end_s: float = 30
) -> PowerTrace:
    """A meter that shows the mean power since its last sample."""
    fine_s = min(step_s / 10, 0.01)
    times, totals, total_j = [0.0], [0.0], 0.0
    for number in range(1, int(end_s / fine_s) + 1):
        total_j += power_w((number - 0.5) * fine_s) * fine_s
        if number % round(step_s / fine_s) == 0:
            times.append(number * fine_s)
            totals.append(total_j)
    return PowerTrace(times, totals)


class TestPulse:
    @pytest.mark.parametrize("step_s", [0.002, 0.02, 0.1, 0.3, 0.5])
    def test_is_found(self, step_s: float) -> None:
        found_s = trace_of(load_w, step_s).find_pulse(PULSE)
        assert found_s == pytest.approx(BEGAN_S, abs=0.02 + step_s / 3)

    def test_is_found_in_the_log_of_a_slow_lab_meter(self, log: Log) -> None:
        means = [
            sum(load_w(0.5 * number - 0.005 * part) for part in range(100)) / 100
            for number in range(1, 60)
        ]
        text = "".join(f"{0.5 * n},{mean}\n" for n, mean in enumerate(means, start=1))
        found_s = read_trace(log("#time,power\n" + text)).find_pulse(PULSE)
        assert found_s == pytest.approx(BEGAN_S, abs=0.3)

    @pytest.mark.parametrize("seed", range(3))
    def test_is_found_in_noise_and_beside_other_loads(self, seed: int) -> None:
        rng = random.Random(seed)

        def noisy_w(time_s: float) -> float:
            other_w = 20.0 if time_s < 6.5 or time_s > 25 else 0.0
            return load_w(time_s) + other_w + rng.gauss(0, 2)

        found_s = trace_of(noisy_w).find_pulse(PULSE)
        assert found_s == pytest.approx(BEGAN_S, abs=0.1)

    def test_other_patterns_are_found(self) -> None:
        trace = trace_of(lambda t: 9.0 if 3 <= t < 3.5 or 5 <= t < 5.7 else 2.0, end_s=10)
        assert trace.find_pulse([0.5, 1.5, 0.7]) == pytest.approx(3, abs=0.02)

    def test_flat_power_holds_no_pulse(self) -> None:
        with pytest.raises(MeterError, match="cannot be seen in the log"):
            trace_of(lambda t: 5.0).find_pulse(PULSE)

    @pytest.mark.parametrize("seed", range(5))
    def test_noise_holds_no_pulse(self, seed: int) -> None:
        rng = random.Random(seed)
        with pytest.raises(MeterError, match="cannot be seen in the log"):
            trace_of(lambda t: rng.gauss(10, 3)).find_pulse(PULSE)

    def test_too_little_contrast_is_refused(self) -> None:
        rng = random.Random(1)
        with pytest.raises(MeterError, match="cannot be seen in the log"):
            trace_of(lambda t: load_w(t, busy_w=3.5) + rng.gauss(0, 5)).find_pulse(PULSE)

    def test_busy_and_idle_are_not_mixed_up(self) -> None:
        with pytest.raises(MeterError, match="cannot be seen in the log"):
            trace_of(lambda t: load_w(t, idle_w=8, busy_w=3)).find_pulse(PULSE)

    def test_second_pulse_is_refused_unless_it_is_excluded(self) -> None:
        trace = trace_of(lambda t: max(load_w(t), load_w(t, began_s=2.0)))
        with pytest.raises(MeterError, match="in the log twice"):
            trace.find_pulse(PULSE)
        assert trace.find_pulse(PULSE, since_s=9.0) == pytest.approx(BEGAN_S, abs=0.02)

    @pytest.mark.parametrize("since_s", [26.0, 40.0])
    def test_short_log_is_refused(self, since_s: float) -> None:
        with pytest.raises(MeterError, match="shorter than the pulse"):
            trace_of(load_w).find_pulse(PULSE, since_s)

    def test_endless_log_is_refused(self) -> None:
        with pytest.raises(MeterError, match="too long to look for a pulse"):
            PowerTrace([0, 1e9], [0, 1]).find_pulse(PULSE)
