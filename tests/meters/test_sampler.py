"""The thread that samples: what it does in time, and what it says when it cannot."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import energy_between
from ampere.meters.integration import PowerMeter
from ampere.meters.sampler import Sampler

from .contract import dies, kill

Start = Callable[..., Sampler]


@pytest.fixture
def start() -> Iterator[Start]:
    samplers: list[Sampler] = []

    def begin(take: Callable[[], None], period_s: float) -> Sampler:
        samplers.append(Sampler(take, period_s))
        return samplers[-1]

    yield begin
    for sampler in samplers:
        sampler.end()


def wait_for(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def test_slow_samples_do_not_make_fewer_of_them(start: Start) -> None:
    taken: list[float] = []

    def take() -> None:
        taken.append(time.perf_counter())
        time.sleep(0.03)

    start(take, 0.05)
    wait_for(lambda: len(taken) >= 11)
    assert taken[10] - taken[0] == pytest.approx(0.5, abs=0.15)  # 0.8 s, were they added up


def test_missed_samples_are_not_made_up_for(start: Start) -> None:
    taken: list[float] = []

    def take() -> None:
        taken.append(time.perf_counter())
        if len(taken) == 1:
            time.sleep(0.5)

    start(take, 0.05)
    wait_for(lambda: len(taken) >= 4)
    assert taken[3] - taken[1] > 0.04


def test_what_a_driver_raises_is_told_once_and_sampling_goes_on(start: Start) -> None:
    taken: list[int] = []

    def take() -> None:
        taken.append(1)
        if len(taken) == 2:
            raise ZeroDivisionError("a bug\nin a driver")

    sampler = start(take, 0.01)
    assert sampler.trouble() == ""
    wait_for(lambda: len(taken) >= 3)
    trouble = sampler.trouble()
    assert "a sample failed (ZeroDivisionError('a bug\\nin a driver'))" in trouble
    assert "\n" not in trouble
    assert sampler.trouble() == ""


@dies
def test_one_that_has_ended_is_told_for_ever(start: Start) -> None:
    threads = set(threading.enumerate())
    sampler = start(lambda: None, 0.01)
    (thread,) = set(threading.enumerate()) - threads
    kill(thread)
    for _ in range(2):
        with pytest.raises(MeterError, match="thread that samples the meter has ended"):
            sampler.trouble()


def test_one_that_was_ended_is_told_too(start: Start) -> None:
    sampler = start(lambda: None, 0.01)
    sampler.end()
    with pytest.raises(MeterError, match="open the meter again"):
        sampler.trouble()


def test_a_period_without_end_is_only_that(start: Start) -> None:
    assert start(lambda: None, 1e300).trouble() == ""


class Sensor(PowerMeter):
    """Shows more while `busy` is set."""

    name: ClassVar[str] = "sensor"
    summary: ClassVar[str] = "for tests"

    def __init__(self, period_s: float) -> None:
        self.busy = False
        super().__init__(period_s)

    def power_w(self) -> float:
        return 180.0 if self.busy else 10.0


@pytest.fixture
def sensor() -> Iterator[Sensor]:
    sensor = Sensor(period_s=0.05)
    yield sensor
    sensor.close()


def work(sensor: Sensor, run: Callable[[], Any]) -> None:
    """Heavy work between two looks that see a machine at rest, as those of a plug do."""
    sensor.busy = True
    run()
    sensor.busy = False


def test_python_that_never_rests_leaves_the_thread_its_turns(sensor: Sensor) -> None:
    def count() -> None:
        end_s = time.perf_counter() + 0.6
        while time.perf_counter() < end_s:
            sum(range(1000))

    before = sensor.read()
    work(sensor, count)
    window = energy_between(before, sensor.read())
    assert window.samples is not None
    assert window.samples >= 6
    assert window.power_w > 150


@pytest.mark.skipif(sys.platform != "linux", reason="needs libc")
def test_a_library_that_keeps_the_interpreter_is_a_fault(sensor: Sensor) -> None:
    libc = ctypes.PyDLL(None)  # unlike CDLL it does not let other threads run
    before = sensor.read()
    work(sensor, lambda: libc.usleep(300_000))
    with pytest.raises(MeterFault, match=r"[01] of 6 samples in 0\.3\d* s are too few"):
        energy_between(before, sensor.read())
    work(sensor, lambda: libc.usleep(1_200_000))
    with pytest.raises(MeterFault, match=r"nothing usable|no sample was taken for 1"):
        sensor.read()
