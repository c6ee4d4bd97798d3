"""Measuring: costs are recovered, drift divided out, stumbles pulled back, failures told."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ampere.core.layers import Features
from ampere.core.workloads import REFERENCE, Workload
from ampere.devices.base import Burst, Device
from ampere.errors import DeviceError, MeterError, MeterFault
from ampere.meters.base import Provenance
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import Measurement
from ampere.records.steady import clipped, steady
from ampere.sittings.drift import BOUND, SHARE
from ampere.sittings.effort import Effort, suited
from ampere.sittings.measure import measure
from ampere.sittings.reference import take_reference
from fakes import FakeDevice, plain_model, total

from .devices import (
    AT_ONCE,
    JOBS,
    MODELS,
    NOMINAL,
    Counting,
    Faulty,
    Sampling,
    coarse,
    errors,
)


def drifting(clock_s: float) -> float:
    """Up to 40 % slower, with a period of some rounds."""
    return 1.2 + 0.2 * math.sin(clock_s / 0.5)


class Hiccuping(FakeDevice):
    """Every eighth burst of a network takes five times as long, not of all at once."""

    def burst(self, handle: int, steps: int) -> Burst:
        burst = super().burst(handle, steps)
        if self.loaded[handle].stage == "step" and (self.bursts[handle] + 3 * handle) % 8 == 0:
            return Burst(steps, 5 * burst.energy_j, 5 * burst.time_s)
        return burst


def test_the_fake_is_a_device() -> None:
    device: Device = FakeDevice()
    assert device.provenance is Provenance.SIMULATED


def test_joules_and_seconds_are_recovered() -> None:
    device = FakeDevice()
    rows = measure(device, JOBS, NOMINAL)
    for row, layers in zip(rows, MODELS, strict=True):
        true = total(layers)
        assert row.energy_j_per_step == pytest.approx(true.energy_j)
        assert row.time_s_per_step == pytest.approx(true.time_s)
        assert row.idle_j_per_step == pytest.approx(device.idle_w * true.time_s)
        assert row.spread == pytest.approx(0.0, abs=1e-9)
        assert (row.layers, row.failed, row.stage) == (layers, None, "step")
        assert row.device == device.fingerprint.id
        assert row.provenance is Provenance.SIMULATED
        assert Measurement.from_json(row.to_json()).layers == row.layers


def test_a_drift_that_all_share_is_divided_out_by_one_factor_a_row() -> None:
    rows = measure(FakeDevice(drift=drifting), JOBS, NOMINAL)
    assert max(errors(rows)) < 0.06  # a quarter is left, until the same networks come back
    for row in rows:  # and without dividing, it would be there
        raw = sum(row.bursts["energy_j"]) / len(row.bursts["energy_j"])
        assert abs(raw / total(row.layers).energy_j - 1) > 0.15
        (slower,), (hungrier,) = set(row.bursts["drift"]), set(row.bursts["energy_drift"])
        pulled_back = steady(row.bursts["energy_j"], row.bursts["time_s"]).mean()
        assert row.energy_j_per_step == pytest.approx(pulled_back / hungrier, rel=1e-4)
        assert slower == hungrier  # by this fake
        assert "marks" not in row.bursts


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.2, 2.0])
def test_of_another_pace_three_quarters_are_divided_out_up_to_a_bound(factor: float) -> None:
    deviation = min(max(math.log(factor), -BOUND), BOUND)
    divided_by = math.exp(SHARE * deviation)
    rows = measure(FakeDevice(drift=lambda clock_s: factor), JOBS, NOMINAL)
    for row in rows:
        expected_j = factor / divided_by * total(row.layers).energy_j
        assert row.energy_j_per_step == pytest.approx(expected_j, rel=0.01)
        assert row.bursts["drift"] == pytest.approx([divided_by] * row.repeats, rel=0.01)
        assert row.bursts.get("marks", []) == ([] if 0.7 < factor < 1.3 else ["pace"])


@pytest.mark.parametrize("factor", [0.9, 1.2])
def test_a_pace_that_networks_are_known_to_follow_is_divided_out(factor: float) -> None:
    known: list[Measurement] = []
    for pace in (0.8, 1.0, 1.25, 1.0):
        device = FakeDevice(drift=lambda clock_s, pace=pace: pace)
        known += measure(device, JOBS, NOMINAL, known=known)
    rows = measure(FakeDevice(drift=lambda clock_s: factor), JOBS, NOMINAL, known=known)
    assert max(errors(rows)) < 0.02


def test_noise_averages_out_and_is_told_as_spread() -> None:
    rows = measure(FakeDevice(noise=0.05, seed=3), JOBS, NOMINAL, Effort(min_rounds=40))
    assert max(errors(rows)) < 0.03
    assert all(0.03 < row.spread < 0.09 for row in rows)


def test_bursts_that_stumbled_are_pulled_back_and_none_is_left_out() -> None:
    rows = measure(Hiccuping(noise=0.01), JOBS, NOMINAL, Effort(min_rounds=24, max_rounds=24))
    for row in rows:
        true = total(row.layers)
        assert row.repeats == len(row.bursts["energy_j"]) == len(row.bursts["time_s"]) == 24
        assert sum(value > 4 * true.time_s for value in row.bursts["time_s"]) == 3
        assert sum(row.bursts["energy_j"]) / 24 > 1.4 * true.energy_j  # as they were read
        assert row.time_s_per_step == pytest.approx(true.time_s, rel=0.02)
        assert "outlier" not in row.bursts
    assert max(errors(rows)) < 0.02


def test_a_device_that_mostly_stumbles_does_not_claim_to_be_sure() -> None:
    effort = Effort(min_rounds=5, max_rounds=30, target=0.01)
    for row in measure(FakeDevice(noise=0.5, seed=1), JOBS, NOMINAL, effort):
        assert row.spread > 0.05
        assert row.repeats == 30


def test_a_quiet_device_is_done_after_the_fewest_rounds() -> None:
    rows = measure(FakeDevice(), JOBS, NOMINAL, Effort(min_rounds=5, max_rounds=40))
    assert [row.repeats for row in rows] == [5, 5, 5]


def test_a_noisy_device_takes_more_rounds_up_to_the_cap() -> None:
    effort = Effort(min_rounds=5, max_rounds=30, target=0.02)
    few = measure(FakeDevice(noise=0.07, seed=0), JOBS, NOMINAL, effort)
    assert all(5 < row.repeats < 30 for row in few)
    assert all(row.error <= 0.02 for row in few)
    many = measure(FakeDevice(noise=0.07, seed=0), JOBS, NOMINAL, replace(effort, target=0.005))
    assert [row.repeats for row in many] == [30, 30, 30]
    assert all(row.error > 0.005 for row in many)


def test_who_has_settled_leaves_the_rounds_and_is_kept_at_once() -> None:
    effort = Effort(min_rounds=5, max_rounds=30, target=0.02)
    kept: list[Measurement] = []
    rows = measure(FakeDevice(noise=0.07, seed=0), JOBS, NOMINAL, effort, keep=kept.append)
    assert kept == sorted(rows, key=lambda row: row.repeats)
    assert len({row.repeats for row in rows}) == 3
    for row in rows:
        assert len(row.bursts["at"]) == len(row.bursts["reference_time_s"]) == row.repeats
        before = clipped(np.array(row.bursts["time_s"][:-1]))
        assert before.std(ddof=1) / before.mean() / math.sqrt(row.repeats - 1) > 0.02


@pytest.mark.parametrize("where", ["fails_to_load", "fails_to_run"])
def test_a_failure_is_told_with_its_reason_and_costs_nobody_else(where: str) -> None:
    broken: dict[str, tuple[Workload, ...]] = {where: (JOBS[1][0],)}
    device = FakeDevice(fails_to_load=broken.get("fails_to_load", ()),
                        fails_to_run=broken.get("fails_to_run", ()))  # fmt: skip
    good, failed, also_good = measure(device, JOBS, NOMINAL)
    reasons = {
        "fails_to_load": Failure("out of memory", Cause.MEMORY),
        "fails_to_run": Failure("it crashed with SIGSEGV", Cause.CRASH),
    }
    assert failed.failed == reasons[where]
    assert failed.energy_j_per_step is None
    assert failed.time_s_per_step is None
    assert failed.layers == MODELS[1]
    assert Measurement.from_json(failed.to_json()).failed == failed.failed
    assert max(errors([good, also_good])) < 1e-9
    assert not device.loaded


def test_all_may_fail() -> None:
    device = FakeDevice(fails_to_load=[workload for workload, _ in JOBS])
    assert all(row.failed for row in measure(device, JOBS, NOMINAL))
    assert measure(device, [], NOMINAL) == []


def test_a_reference_that_fails_is_the_devices_fault() -> None:
    device = FakeDevice(fails_to_run=[REFERENCE])
    with pytest.raises(DeviceError, match="the reference workload failed: it crashed with SIGSEGV"):
        measure(device, JOBS, NOMINAL)
    assert not device.loaded


def test_workloads_are_forgotten_afterwards() -> None:
    device = FakeDevice()
    take_reference(device)
    measure(device, JOBS, NOMINAL)
    assert not device.loaded


def test_bursts_are_interleaved() -> None:
    order: list[int] = []

    class Watched(FakeDevice):
        def burst(self, handle: int, steps: int) -> Burst:
            order.append(handle)
            return super().burst(handle, steps)

    measure(Watched(), JOBS, NOMINAL, Effort(min_rounds=6, max_rounds=6))
    assert order[-25:] == [4, 1, 2, 3] * 6 + [4]  # the reference was loaded last


def test_bursts_last_about_as_long_as_they_should() -> None:
    rows = measure(FakeDevice(), JOBS, NOMINAL, Effort(burst_s=0.2, warmup_s=1.0))
    for row in rows:
        assert row.bursts["steps"] * row.time_s_per_step == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize(("known", "expected"), [(None, 8.0), (1.0, 1.0)])
def test_the_device_fills_in_features_that_nobody_knows(
    known: float | None, expected: float
) -> None:
    layers = (replace(plain_model(8)[-1], features=Features(known)),)
    device = FakeDevice(features=lambda layer: Features(float(layer.widths["in"])))
    (row,) = measure(device, [(Workload(layers), layers)], NOMINAL)
    assert row.layers[0].features == Features(expected)


def test_the_stage_is_written_down() -> None:
    workload = Workload(MODELS[0], stage="forward")
    (row,) = measure(FakeDevice(), [(workload, MODELS[0])], NOMINAL)
    assert row.stage == "forward"


# --- meters that tell coarsely, late, or nonsense -------------------------------------------------


@coarse
@pytest.mark.parametrize("target", [0.015, 0.05])
def test_a_coarse_meter_measures_as_well_as_was_asked(
    kind: type[Counting] | type[Sampling], size: float, target: float
) -> None:
    """The target is a standard error: so much, on average over what the meter happens to show."""
    found: list[float] = []
    for seed in range(6):
        rows = measure(kind(size, noise=0.01, seed=seed), JOBS, NOMINAL, Effort(target=target))
        found += errors(rows)
        assert all(row.repeats <= 8 and "faults" not in row.bursts for row in rows)
    assert math.sqrt(sum(error**2 for error in found) / len(found)) < 1.25 * target
    assert max(found) < 3 * target


@coarse
def test_a_coarse_meter_does_not_claim_to_be_sure(
    kind: type[Counting] | type[Sampling], size: float
) -> None:
    """Four equal counts have no scatter, and may all be off by a step."""
    for row in measure(kind(size), JOBS, NOMINAL):
        assert 0.3 * Effort().target < row.error < 3 * Effort().target


@coarse
def test_bursts_of_a_coarse_meter_last_as_long_as_it_needs(
    kind: type[Counting] | type[Sampling], size: float
) -> None:
    """While it does not move nobody tells the time of a step, and guesses must not remain."""
    device = kind(size)
    wanted_s = suited(Effort(), device.resolution, NOMINAL.energy_j / NOMINAL.time_s).burst_s
    for row in measure(device, JOBS, NOMINAL):
        assert row.bursts["steps"] * row.time_s_per_step == pytest.approx(wanted_s, rel=0.3)


@pytest.mark.parametrize(("tries", "faults"), [({3}, 1), ({3, 5}, 2), ({4, 5, 6}, 3)])
def test_a_reading_that_cannot_be_true_is_taken_again_and_counted(
    tries: set[int], faults: int
) -> None:
    device = Faulty(tries)
    rows = measure(device, JOBS, NOMINAL, AT_ONCE)
    assert [row.bursts.get("faults") for row in rows] == [None, faults, None]
    assert max(errors(rows)) < 1e-9
    assert len({len(row.bursts["energy_j"]) for row in rows}) == 1
    assert Measurement.from_json(rows[1].to_json()).bursts["faults"] == faults
    assert not device.loaded


@pytest.mark.parametrize("of", [JOBS[1][0], REFERENCE])
def test_four_in_a_row_are_the_meters_fault(of: Workload) -> None:
    device = Faulty(range(40, 44) if of == REFERENCE else range(3, 7), of)
    with pytest.raises(MeterError, match=r"ran backwards by 3 J \(4 times in a row\)") as caught:
        measure(device, JOBS, NOMINAL, replace(AT_ONCE, max_rounds=60, min_rounds=60))
    assert not isinstance(caught.value, MeterFault)  # nobody takes it again
    assert not device.loaded


def test_faults_while_warming_up_do_no_harm() -> None:
    rows = measure(Faulty({1, 2, 3}), JOBS, NOMINAL)
    assert max(errors(rows)) < 1e-9
    assert not any("faults" in row.bursts for row in rows)


def test_an_idle_power_that_nobody_knows_is_not_written_down() -> None:
    (row,) = measure(FakeDevice(), JOBS[:1], replace(NOMINAL, idle_w=0.0))
    assert row.idle_j_per_step is None
