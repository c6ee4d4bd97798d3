from __future__ import annotations

import math
import threading
import time

import pytest

from ampere.errors import MeterError
from ampere.meters.base import Provenance, energy_between
from ampere.meters.drivers.cpu import CpuMeter


def spin(cpu_s: float) -> None:
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def test_joules_are_called_modelled() -> None:
    assert CpuMeter().read().provenance is Provenance.MODELLED
    assert CpuMeter.provenance.metered == "modelled"


def test_idle_power_counts_wall_time() -> None:
    meter = CpuMeter(idle_w=3.0, active_w=0.0)
    before = meter.read()
    time.sleep(0.02)
    window = energy_between(before, meter.read())
    assert window.time_s >= 0.02
    assert window.energy_j == pytest.approx(3.0 * window.time_s, rel=1e-6)


def test_active_power_counts_cpu_time_of_the_process() -> None:
    meter = CpuMeter(idle_w=0.0, active_w=5.0)
    first_s = time.process_time()
    before = meter.read()
    spin(0.02)
    after = meter.read()
    last_s = time.process_time()
    energy_j = after.energy_j - before.energy_j
    assert 5.0 * 0.02 <= energy_j <= 5.0 * (last_s - first_s) * (1 + 1e-9)


def test_active_power_counts_all_threads() -> None:
    meter = CpuMeter(idle_w=0.0, active_w=1.0)
    before = meter.read()
    threads = [threading.Thread(target=spin, args=(0.02,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.read().energy_j - before.energy_j >= 0.04


def test_sleeping_costs_less_than_working() -> None:
    meter = CpuMeter(idle_w=0.0, active_w=1.0)
    before = meter.read()
    time.sleep(0.05)
    assert meter.read().energy_j - before.energy_j < 0.05


def test_powers_can_be_asked_for() -> None:
    meter = CpuMeter(idle_w=2.5, active_w=9)
    assert (meter.idle_w, meter.active_w) == (2.5, 9)


@pytest.mark.parametrize("power_w", [-1.0, math.nan, math.inf, "two"])
@pytest.mark.parametrize("setting", ["idle_w", "active_w"])
def test_impossible_powers_are_refused(setting: str, power_w: float) -> None:
    with pytest.raises(MeterError, match=f"{setting}={power_w} must be watts"):
        CpuMeter(**{setting: power_w})


def test_meter_that_cannot_move_is_refused() -> None:
    with pytest.raises(MeterError, match="both 0"):
        CpuMeter(idle_w=0, active_w=0)
