from collections.abc import Mapping

import pytest

from ampere.core.fingerprint import Fingerprint
from ampere.core.types import Json
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Burst, Device, Loaded
from ampere.errors import DataError, DeviceError, MeterFault, OutOfMemory
from ampere.evaluation.extrapolation import extrapolate
from ampere.meters.base import Provenance, Resolution
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import Measurement
from plain_rows import network

WORKLOAD = Workload(model=ModelSpec("lenet5"))
LAYERS = network(1e6, 1e5)


class CostlyDevice:
    """Takes 2 J and 0.5 s a step, and ten times that for the first one; notes what it was asked."""

    resolution = Resolution()

    def __init__(self, fails_at: str = "", error: type[Exception] = OutOfMemory) -> None:
        self.calls: list[str] = []
        self.fails_at, self.error = fails_at, error
        self.warm = False

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint({"machine": "costly"})

    @property
    def provenance(self) -> Provenance:
        return Provenance.SIMULATED

    @property
    def meter(self) -> Mapping[str, Json]:
        return {"name": "fake", "settings": {}}

    def load(self, workload: Workload) -> Loaded:
        self._do("load")
        return Loaded(7)

    def burst(self, handle: int, steps: int) -> Burst:
        assert handle == 7
        self._do(f"burst {steps}")
        extra, self.warm = 0 if self.warm else 9, True
        return Burst(steps, 2.0 * (steps + extra), 0.5 * (steps + extra))

    def unload(self, handle: int) -> None:
        assert handle == 7
        self._do("unload")

    def close(self) -> None:
        self.calls.append("close")

    def _do(self, what: str) -> None:
        self.calls.append(what)
        if what == self.fails_at:
            raise self.error("it ran out of memory")


def run(device: Device, steps: int = 10) -> Measurement:
    return extrapolate(device, WORKLOAD, LAYERS, steps)


def test_one_burst_after_one_step_of_warm_up() -> None:
    device = CostlyDevice()
    row = run(device, steps=20)
    assert device.calls == ["load", "burst 1", "burst 20", "unload"]
    assert (row.energy_j, row.time_s) == (2.0, 0.5)
    assert (row.repeats, row.spread, row.failed) == (1, 0.0, None)
    assert row.layers == LAYERS


def test_ten_steps_unless_told_otherwise() -> None:
    device = CostlyDevice()
    extrapolate(device, WORKLOAD, LAYERS)
    assert "burst 10" in device.calls


def test_the_row_says_where_it_comes_from_and_can_be_kept() -> None:
    device = CostlyDevice()
    row = run(device)
    assert row.device == device.fingerprint.id
    assert row.provenance is Provenance.SIMULATED
    assert row.stage == "step"
    assert row.when
    assert Measurement.from_json(row.to_json()) == row
    assert row.bursts == {"steps": 10, "energy_j": [2.0], "time_s": [0.5]}


@pytest.mark.parametrize("at", ["load", "burst 1", "burst 10"])
def test_a_failure_is_a_failed_measurement(at: str) -> None:
    device = CostlyDevice(fails_at=at)
    row = run(device)
    assert row.failed == Failure("it ran out of memory", Cause.MEMORY)
    assert Measurement.from_json(row.to_json()).failed == row.failed
    assert ("unload" in device.calls) == (at != "load")


def test_what_a_coarse_meter_cannot_tell_is_a_failed_measurement() -> None:
    row = run(CostlyDevice(fails_at="burst 10", error=MeterFault))
    assert row.failed == Failure("it ran out of memory", Cause.METER)


def test_a_workload_that_went_by_itself_is_no_failure() -> None:
    row = run(CostlyDevice(fails_at="unload"))
    assert row.failed is None
    assert row.energy_j == 2.0


def test_a_device_that_is_gone_is_not_blamed_on_the_model() -> None:
    device = CostlyDevice(fails_at="burst 10", error=DeviceError)
    with pytest.raises(DeviceError):
        run(device)
    assert device.calls[-1] == "unload"


def test_no_steps_are_refused_before_anything_is_loaded() -> None:
    device = CostlyDevice()
    with pytest.raises(DataError, match="0 steps"):
        run(device, steps=0)
    assert device.calls == []
