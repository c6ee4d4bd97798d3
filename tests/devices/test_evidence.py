"""Joules carry their evidence: a sensor's samples travel from its thread into the row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from ampere.core.workloads import IDLE, Settings
from ampere.devices.outside_meter import OutsideMeter
from ampere.devices.worker import Worker, answer
from ampere.errors import MeterFault
from frameworks.fake_runtime import StandInDevice
from meters.plugs import GEN2, Plug, gen2

STEPS = 30  # of 10 ms each


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, float | str]:
    """Of a sensor of the whole machine, sampled every 20 ms."""
    chip = tmp_path / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("power_meter\n")
    (chip / "power1_average").write_text("20000000\n")
    return {"root": str(chip.parent), "period_s": 0.02}


@pytest.fixture
def plug() -> Iterator[Plug]:
    plug = Plug()
    plug.answers[GEN2] = gen2(8.9)
    yield plug
    plug.stop()


def burst_of(meter: str, settings: dict[str, float | str]) -> dict[str, object]:
    worker = Worker()
    worker.open({"name": meter, "settings": settings}, asdict(Settings(threads=1)))
    handle = worker.load(IDLE.to_json())["handle"]
    told = worker.burst(handle, STEPS)
    assert worker.meter is not None
    worker.meter.close()
    return told


def test_a_worker_says_how_many_samples_its_joules_rest_on(
    settings: dict[str, float | str],
) -> None:
    told = burst_of("hwmon", settings)
    assert isinstance(told["samples"], int)
    assert 7 <= told["samples"] <= 30
    assert burst_of("cpu", {})["samples"] is None


def test_a_worker_whose_sampler_died_says_so(settings: dict[str, float | str]) -> None:
    worker = Worker()
    worker.open({"name": "hwmon", "settings": settings}, asdict(Settings(threads=1)))
    handle = worker.load(IDLE.to_json())["handle"]
    assert worker.meter is not None
    worker.meter.close()
    told = answer(worker, f'{{"do": "burst", "handle": {handle}, "steps": 1}}')
    assert told["error"] == "MeterError"
    assert "has ended" in told["message"]


def test_a_device_hands_them_on(settings: dict[str, float | str]) -> None:
    with StandInDevice(Settings(threads=1), "hwmon", settings) as device:
        burst = device.burst(device.load(IDLE).handle, STEPS)
    assert burst.samples is not None
    assert burst.samples >= 7


def test_a_meter_outside_does_so_too(plug: Plug) -> None:
    meter = OutsideMeter("shelly", {"url": plug.url, "period_s": 0.02})
    before = meter.read()
    asked = len(plug.requests)
    while len(plug.requests) < asked + 6:
        time.sleep(0.005)
    window = meter.energy_since(before, burst_s=0.1)
    meter.close()
    assert window.samples is not None
    assert window.samples >= 3


def test_a_plug_that_fell_silent_is_a_fault(plug: Plug) -> None:
    meter = OutsideMeter("shelly", {"url": plug.url, "period_s": 0.05})
    before = meter.read()
    plug.answers[GEN2] = gen2(None)  # bridged, as far as the sensor goes
    asked = len(plug.requests)
    while len(plug.requests) < asked + 6:
        time.sleep(0.005)
    plug.answers[GEN2] = gen2(8.9)
    with pytest.raises(MeterFault, match="too few"):
        meter.energy_since(before, burst_s=0.1)
    meter.close()
