"""Bursts: taken again where the meter errs, timed from here where it does not move."""

from __future__ import annotations

import time

import pytest

from ampere.devices.base import Burst
from ampere.errors import MeterError, MeterFault
from ampere.sittings import bursts
from fakes import FakeDevice, total

from .devices import JOBS, MODELS, Faulty


def test_the_way_to_a_device_is_no_part_of_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bursts, "CLOCKED_S", 0.3)

    class Distant(FakeDevice):
        """A millisecond a step, and 30 to reach it; its battery has not moved yet."""

        def burst(self, handle: int, steps: int) -> Burst:
            time.sleep(0.03 + 1e-3 * steps)
            raise MeterFault("meter did not move")

    assert bursts.warm_up(Distant(), 1, burst_s=10.0, warmup_s=0.05) > 6000  # of 10 000


def test_a_burst_is_taken_again_and_what_was_in_vain_is_counted() -> None:
    device = Faulty({1, 2})
    handle = device.load(JOBS[1][0]).handle
    burst, faults = bursts.take_burst(device, handle, 3)
    assert (burst.steps, faults) == (3, 2)
    assert bursts.take_burst(device, handle, 3)[1] == 0


def test_a_meter_that_always_errs_is_told_with_its_last_reason() -> None:
    device = Faulty(range(1, 9))
    handle = device.load(JOBS[1][0]).handle
    with pytest.raises(MeterError, match=r"^meter ran backwards by 3 J \(4 times in a row\)$"):
        bursts.take_burst(device, handle, 3)
    assert device.tried == bursts.TRIES


def test_a_trial_has_a_burst_only_if_the_meter_moved() -> None:
    device = Faulty({2})
    handle = device.load(JOBS[1][0]).handle
    moved, still = (bursts.try_burst(device, handle, 3) for _ in range(2))
    assert moved.burst is not None
    assert moved.burst.energy_j == pytest.approx(3 * total(MODELS[1]).energy_j)
    assert moved.burst.time_s == moved.time_s == pytest.approx(3 * total(MODELS[1]).time_s)
    assert (still.steps, still.burst) == (3, None)
    assert 0 < still.time_s < 1  # by our own clock: the fake only says that time has passed


@pytest.mark.parametrize("burst_s", [1e-9, 0.03, 1.0])
def test_warming_up_says_how_many_steps_fill_a_burst(burst_s: float) -> None:
    device = FakeDevice()
    handle = device.load(JOBS[0][0]).handle
    steps = bursts.warm_up(device, handle, burst_s, warmup_s=0.05)
    assert steps == max(1, round(burst_s / total(MODELS[0]).time_s))
    assert device.clock_s >= 0.05
