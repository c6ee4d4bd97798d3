"""A run: one workload in hand, which may fail alone and knows when it has settled."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ampere.core.workloads import Workload
from ampere.devices.base import Burst, Loaded
from ampere.errors import Crashed, DeviceError, Hung, MeasurementFailed, ModelError, OutOfMemory
from ampere.meters.surroundings import Evidence
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import REACH, Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.run import Beat, Circumstances, Drift, Run
from fakes import FakeDevice

from .devices import JOBS, MODELS, NOMINAL

AROUND = Burst(1, NOMINAL.energy_j, NOMINAL.time_s)  # of the reference


def run_of(*energies_j: float, times_s: Sequence[float] = ()) -> Run:
    """A run with bursts of two steps that took these joules and seconds, or one, each step."""
    beats = [
        Beat(Burst(2, 2 * energy_j, 2 * time_s), at=100.0 + i, before=AROUND, after=AROUND)
        for i, (energy_j, time_s) in enumerate(
            zip(energies_j, times_s or [1.0] * len(energies_j), strict=True)
        )
    ]
    return Run(JOBS[0][0], MODELS[0], handle=1, steps=2, beats=beats)


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
    assert "samples" not in run.conclude(FakeDevice(), Drift(), NOMINAL, 0.0).bursts
    run.beats = [
        replace(beat, burst=replace(beat.burst, samples=12 + i)) for i, beat in enumerate(run.beats)
    ]
    row = run.conclude(FakeDevice(), Drift(), NOMINAL, 0.0)
    assert row.bursts["samples"] == [12, 13, 14]
    assert Measurement.from_json(row.to_json()).bursts["samples"] == [12, 13, 14]


def test_a_row_keeps_what_building_and_warming_up_took() -> None:
    class Slow(FakeDevice):
        def load(self, workload: Workload) -> Loaded:
            time.sleep(0.02)
            return super().load(workload)

        def burst(self, handle: int, steps: int) -> Burst:
            time.sleep(0.001)
            return super().burst(handle, steps)

    device, run = Slow(), Run(*JOBS[0])
    run.load(device, Effort())
    took_s = run.cost_s
    run.beats = run_of(1.0, 1.0, 1.0).beats
    assert run.burst(device)
    row = run.conclude(device, Drift(), NOMINAL, 0.0)
    assert 0.02 <= row.bursts["loading_s"] == pytest.approx(took_s, rel=1e-4)
    assert row.cost_s > row.bursts["loading_s"]
    assert Measurement.from_json(row.to_json()).bursts["loading_s"] == row.bursts["loading_s"]


def test_a_device_that_is_lost_is_nobodys_failure() -> None:
    class Lost(FakeDevice):
        def load(self, workload: Workload) -> None:
            raise DeviceError("it is gone")

    with pytest.raises(DeviceError, match="it is gone"):
        Run(*JOBS[0]).load(Lost(), Effort())


def test_it_has_settled_when_its_standard_error_is_under_the_target() -> None:
    run = run_of(1.0, 1.1, 0.9, 1.05, 0.95)  # a standard deviation of 0.079, √5 less for the mean
    assert run.is_settled(target=0.036)
    assert not run.is_settled(target=0.035)
    assert not replace(run, beats=run.beats[:2]).is_settled(target=0.036)
    seconds = run_of(*[1.0] * 5, times_s=[1.0, 1.1, 0.9, 1.05, 0.95])  # they have to settle, too
    assert seconds.is_settled(target=0.036)
    assert not seconds.is_settled(target=0.035)


def test_a_burst_that_stumbled_counts_as_slow_as_one_may_be_and_drift_is_divided_out() -> None:
    run = run_of(1.0, 1.0, 1.0, 1.0, 9.0, times_s=[1.0, 1.0, 1.0, 1.0, 9.0])
    row = run.conclude(FakeDevice(), Drift(energy=2.0, time=0.5), NOMINAL, reference_s=0.0)
    assert row.energy_j_per_step == pytest.approx((4 + 1.1) / 5 / 2.0)
    assert row.time_s_per_step == pytest.approx((4 + 1.1) / 5 / 0.5)
    assert row.repeats == 5
    assert row.spread > 1.0  # nobody hides that it stumbled
    assert row.bursts["energy_j"] == [1.0, 1.0, 1.0, 1.0, 9.0]  # as they were read
    assert row.bursts["time_s"] == [1.0, 1.0, 1.0, 1.0, 9.0]
    assert row.bursts["energy_drift"] == [2.0] * 5
    assert row.bursts["drift"] == [0.5] * 5
    assert row.bursts["at"] == [100.0, 101.0, 102.0, 103.0, 104.0]
    assert (row.bursts["median_energy_j"], row.bursts["median_time_s"]) == (1.0, 1.0)


def test_joules_that_lie_far_from_the_others_are_pulled_to_where_far_begins() -> None:
    row = run_of(1.0, 1.1, 0.9, 1.05, 9.0).conclude(FakeDevice(), Drift(), NOMINAL, reference_s=0.0)
    far_j = 1.05 + 3.5 * 0.05 / 0.6745  # their median, and the median deviation from it
    assert row.energy_j_per_step == pytest.approx((1.0 + 1.1 + 0.9 + 1.05 + far_j) / 5)
    assert row.time_s_per_step == 1.0


@pytest.mark.parametrize(("threads", "least"), [(1, 2.0), (2, 1000.0)])
def test_beside_others_a_row_doubts_as_much_as_they_may_have_added(
    threads: int, least: float
) -> None:
    """Several threads that share their cores wait for each other, nobody knows how long."""
    run = run_of(1.0, 1.0, 1.0)
    evidence = Evidence(0.8, 2, others_s=2.0)  # two seconds: a core of others
    run.beats = [replace(beat, burst=replace(beat.burst, evidence=evidence)) for beat in run.beats]
    row = run.conclude(FakeDevice(), Drift(), NOMINAL, 0.0, Circumstances(threads=threads))
    assert row.bursts["marks"] == ["busy"]
    assert least <= math.exp(REACH * row.doubt) <= 2.1 * least
