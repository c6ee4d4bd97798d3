"""What every meter must do. The tests of a meter inherit `MeterContract`, wherever it comes from.

class TestMyMeter(MeterContract):
    driver = MyMeter

    def settings(self, tmp_path):
        return {"address": "0x40"}

A meter that samples in a thread needs a `period_s` of 0.1 s at most there.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ampere.errors import MeterError
from ampere.meters.base import Meter, Provenance, Reading
from ampere.meters.sampler import NAME

# pytest tells of threads that an exception has ended: here it is meant.
dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def samplers() -> set[threading.Thread]:
    """The threads that sample for meters of this process."""
    return {thread for thread in threading.enumerate() if thread.name == NAME}


def kill(thread: threading.Thread) -> None:
    """End a thread from outside, in the midst of whatever it does."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
    thread.join(10)
    assert not thread.is_alive()


class MeterContract:
    driver: ClassVar[type[Meter]]

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        """Settings with which the meter can be opened here; override."""
        return {}

    def work(self, meter: Any) -> None:
        """Something that takes energy; override where keeping the processor busy is not enough."""
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            pass

    @pytest.fixture
    def meter(self, tmp_path: Path) -> Iterator[Meter]:
        driver: Any = self.driver
        settings = self.settings(tmp_path)
        meter: Meter = driver(**settings)
        yield meter
        meter.close()

    @pytest.fixture
    def readings(self, meter: Meter) -> list[Reading]:
        readings = [meter.read()]
        for _ in range(3):
            self.work(meter)
            readings.append(meter.read())
        return readings

    def test_is_a_meter(self, meter: Meter) -> None:
        assert isinstance(meter, Meter)

    def test_returns_finite_readings(self, readings: list[Reading]) -> None:
        for reading in readings:
            assert isinstance(reading, Reading)
            assert math.isfinite(reading.energy_j)
            assert math.isfinite(reading.time_s)

    def test_total_never_falls(self, readings: list[Reading]) -> None:
        energies = [reading.energy_j for reading in readings]
        assert energies == sorted(energies)

    def test_time_never_runs_backwards(self, readings: list[Reading]) -> None:
        times = [reading.time_s for reading in readings]
        assert times == sorted(times)

    def test_work_takes_energy_and_time(self, readings: list[Reading]) -> None:
        assert readings[-1].energy_j > readings[0].energy_j
        assert readings[-1].time_s > readings[0].time_s

    def test_every_reading_has_the_provenance_of_the_class(self, readings: list[Reading]) -> None:
        assert isinstance(self.driver.provenance, Provenance)
        assert {reading.provenance for reading in readings} == {self.driver.provenance}

    def test_says_what_it_is_in_one_line(self) -> None:
        for text in (self.driver.name, self.driver.summary):
            assert text.strip()
            assert "\n" not in text

    def test_name_can_stand_on_the_command_line(self) -> None:
        assert not set(self.driver.name) & set(":,= ")
        assert self.driver.name != "auto"

    def test_obstacle_is_none_or_one_line(self) -> None:
        obstacle = self.driver.obstacle()
        assert obstacle is None or (obstacle.strip() and "\n" not in obstacle)

    def test_settings_are_plain_data(self, tmp_path: Path) -> None:
        settings = self.settings(tmp_path)
        driver: Any = self.driver
        meter = driver(**json.loads(json.dumps(settings)))
        meter.read()
        meter.close()
        for parameter in inspect.signature(driver).parameters.values():
            assert parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            assert parameter.default is parameter.empty or isinstance(
                parameter.default, (int, float, str, type(None))
            )

    def test_unknown_settings_are_refused(self, tmp_path: Path) -> None:
        driver: Any = self.driver
        with pytest.raises((TypeError, MeterError)):
            driver(**self.settings(tmp_path), no_such_setting=1.0)

    def test_idle_power_if_known_is_watts(self, meter: Meter) -> None:
        idle_w = getattr(meter, "idle_w", None)
        assert idle_w is None or 0 <= idle_w < math.inf

    def test_resolution_is_known_once_it_is_open(self, meter: Meter) -> None:
        meter.read()
        assert 0 <= meter.resolution.energy_j < math.inf
        assert 0 <= meter.resolution.period_s < math.inf
        assert 0 <= meter.resolution.window_s(power_w=5.0, error=0.01) < math.inf

    def test_closing_twice_is_harmless(self, meter: Meter) -> None:
        meter.close()
        meter.close()

    def test_samples_of_a_thread_stand_in_the_readings(self, tmp_path: Path) -> None:
        others = samplers()
        driver: Any = self.driver
        meter: Meter = driver(**self.settings(tmp_path))
        first = meter.read()
        if samplers() - others:
            assert first.samples is not None
            assert first.period_s > 0
            deadline_s = time.monotonic() + 10
            while (meter.read().samples or 0) < first.samples + 2:
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
        assert first.samples is None or first.period_s > 0
        meter.close()

    @dies
    def test_thread_that_dies_is_told(self, tmp_path: Path) -> None:
        others = samplers()
        driver: Any = self.driver
        meter: Meter = driver(**self.settings(tmp_path))
        meter.read()
        threads = samplers() - others
        for thread in threads:
            kill(thread)
        for _ in threads:
            with pytest.raises(MeterError, match="has ended; open the meter again"):
                meter.read()
        meter.close()

    def test_addresses_are_settings(self) -> None:
        assert set(self.driver.addresses) <= set(inspect.signature(self.driver).parameters)

    def test_accelerators_are_known(self) -> None:
        assert set(self.driver.accelerators) <= {"cpu", "cuda", "mps"}
