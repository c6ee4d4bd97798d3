"""A run: one workload in hand, which may fail alone and knows when it has settled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.core.workloads import Workload
from ampere.devices.base import Burst
from ampere.errors import Crashed, DeviceError, Hung, MeasurementFailed, ModelError, OutOfMemory
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.run import Drift, Run
from fakes import FakeDevice

from .devices import JOBS, MODELS, NOMINAL


def run_of(*energies_j: float) -> Run:
    """A run with bursts of two steps that took these joules, and a second, each step."""
    bursts = [Burst(2, 2 * energy_j, 2.0) for energy_j in energies_j]
    return Run(JOBS[0][0], MODELS[0], handle=1, steps=2, bursts=bursts)


def still(run: Run) -> Drift:
    ones = [1.0] * len(run.bursts)
    return Drift(energy=ones, time=ones)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OutOfMemory, Cause.MEMORY),
        (Crashed, Cause.CRASH),
        (Hung, Cause.HANG),
        (ModelError, Cause.MODEL),
        (MeasurementFailed, Cause.OTHER),
    ],
)
def test_what_goes_wrong_with_it_is_its_failure(error: type[Exception], cause: Cause) -> None:
    class Refusing(FakeDevice):
        def load(self, workload: Workload) -> None:
            raise error("so it is")

    run = Run(*JOBS[0])
    run.load(Refusing(), Effort())
    assert run.failed == Failure("so it is", cause)
    row = run.conclude(FakeDevice(), Drift(), NOMINAL, reference_s=1.0)
    assert (row.failed, row.energy_j_per_step, row.time_s_per_step) == (run.failed, None, None)
    assert row.cost_s >= 1.0


def test_samples_stand_beside_the_joules_where_the_meter_has_them() -> None:
    run = run_of(1.0, 2.0, 1.5)
    assert "samples" not in run.conclude(FakeDevice(), still(run), NOMINAL, 0.0).bursts
    run.bursts = [replace(burst, samples=12 + i) for i, burst in enumerate(run.bursts)]
    row = run.conclude(FakeDevice(), still(run), NOMINAL, 0.0)
    assert row.bursts["samples"] == [12, 13, 14]
    assert Measurement.from_json(row.to_json()).bursts["samples"] == [12, 13, 14]


def test_a_device_that_is_lost_is_nobodys_failure() -> None:
    class Lost(FakeDevice):
        def load(self, workload: Workload) -> None:
            raise DeviceError("it is gone")

    with pytest.raises(DeviceError, match="it is gone"):
        Run(*JOBS[0]).load(Lost(), Effort())


def test_it_has_settled_when_its_standard_error_is_under_the_target() -> None:
    run = run_of(1.0, 1.1, 0.9, 1.05, 0.95)  # a standard deviation of 0.079, √5 less for the mean
    assert run.is_settled(still(run), target=0.036)
    assert not run.is_settled(still(run), target=0.035)
    assert not replace(run, bursts=run.bursts[:2]).is_settled(still(run_of(1, 1)), target=0.036)


def test_drift_is_divided_out_and_an_outlier_left_out() -> None:
    factors = [1.0, 2.0, 1.0, 2.0, 1.0]
    drift = Drift(energy=factors, time=factors)
    run = run_of(1.0, 2.0, 1.0, 2.0, 9.0)
    run.bursts = [replace(b, time_s=2 * f) for b, f in zip(run.bursts, factors, strict=True)]
    run.began_at = [0.0] * 5
    row = run.conclude(FakeDevice(), drift, NOMINAL, reference_s=0.0)
    assert (row.energy_j_per_step, row.time_s_per_step, row.repeats) == (1.0, 1.0, 4)
    assert row.bursts["outlier"] == [4]
    assert row.bursts["energy_j"] == [1.0, 2.0, 1.0, 2.0, 9.0]  # as they were read
