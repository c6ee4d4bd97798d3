"""Measuring: costs are recovered, drift divided out, outliers marked, failures told."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import replace

import pytest

from ampere.acquisition import measure as measuring
from ampere.acquisition.measure import Effort, Reference, measure, suited, take_reference
from ampere.core.layers import Features, Layer
from ampere.core.workloads import IDLE, REFERENCE, Workload
from ampere.devices.base import Burst, Device
from ampere.errors import DeviceError, MeterError, MeterFault
from ampere.meters.base import Provenance, Resolution
from ampere.records.measurement import Measurement
from fakes import REFERENCE_COST, FakeDevice, plain_model, total

NOMINAL = Reference(FakeDevice.idle_w, REFERENCE_COST.time_s, REFERENCE_COST.energy_j)
MODELS = [plain_model(4, 8), plain_model(16), plain_model(32, 64, 2)]
Job = tuple[Workload, tuple[Layer, ...]]
JOBS: list[Job] = [(Workload(layers), layers) for layers in MODELS]


def drifting(clock_s: float) -> float:
    """Up to 40 % slower, with a period of some rounds."""
    return 1.2 + 0.2 * math.sin(clock_s / 0.5)


def errors(rows: list[Measurement]) -> list[float]:
    """Relative errors of the joules."""
    return [abs(row.energy_j_per_step / total(row.layers).energy_j - 1) for row in rows]


class Hiccuping(FakeDevice):
    """Every eighth burst of a network takes five times as long, not of all at once."""

    def burst(self, handle: int, steps: int) -> Burst:
        burst = super().burst(handle, steps)
        if self.loaded[handle].layers and (self.bursts[handle] + 3 * handle) % 8 == 0:
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


def test_calibration_recovers_the_idle_power_and_the_reference() -> None:
    found = take_reference(FakeDevice())
    assert found.idle_w == pytest.approx(NOMINAL.idle_w)
    assert found.time_s == pytest.approx(NOMINAL.time_s)
    assert found.energy_j == pytest.approx(NOMINAL.energy_j)


def test_a_drift_that_all_share_is_divided_out() -> None:
    rows = measure(FakeDevice(drift=drifting), JOBS, NOMINAL)
    assert max(errors(rows)) < 0.02
    for row in rows:  # and without dividing, it would be there
        raw = sum(row.bursts["energy_j"]) / len(row.bursts["energy_j"])
        assert abs(raw / total(row.layers).energy_j - 1) > 0.1
        assert max(row.bursts["drift"]) > 1.3


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_device_that_is_slower_than_at_calibration_is_measured_as_it_was_then(
    factor: float,
) -> None:
    rows = measure(FakeDevice(drift=lambda clock_s: factor), JOBS, NOMINAL)
    assert max(errors(rows)) < 1e-9
    assert all(drift == pytest.approx(factor) for row in rows for drift in row.bursts["drift"])


def test_noise_averages_out_and_is_told_as_spread() -> None:
    rows = measure(FakeDevice(noise=0.05, seed=3), JOBS, NOMINAL, Effort(min_rounds=40))
    assert max(errors(rows)) < 0.03
    assert all(0.03 < row.spread < 0.09 for row in rows)


def test_outliers_are_marked_and_left_out_but_kept() -> None:
    rows = measure(Hiccuping(noise=0.01), JOBS, NOMINAL, Effort(min_rounds=24, max_rounds=24))
    for row in rows:
        marked = row.bursts["outlier"]
        assert len(marked) >= 2
        assert len(row.bursts["energy_j"]) == len(row.bursts["time_s"]) == 24
        assert row.repeats == 24 - len(marked)
        true = total(row.layers).time_s
        spikes = [i for i, value in enumerate(row.bursts["time_s"]) if value > 4 * true]
        assert set(spikes) <= set(marked)
    assert max(errors(rows)) < 0.02


def test_a_quiet_device_is_done_after_the_fewest_rounds() -> None:
    rows = measure(FakeDevice(), JOBS, NOMINAL, Effort(min_rounds=5, max_rounds=40))
    assert [row.repeats for row in rows] == [5, 5, 5]


def test_a_noisy_device_takes_more_rounds_up_to_the_cap() -> None:
    effort = Effort(min_rounds=5, max_rounds=30, target=0.02)
    few = measure(FakeDevice(noise=0.07, seed=1), JOBS, NOMINAL, effort)
    assert all(5 < len(row.bursts["time_s"]) < 30 for row in few)
    many = measure(FakeDevice(noise=0.5, seed=1), JOBS, NOMINAL, effort)
    assert all(len(row.bursts["time_s"]) == 30 for row in many)


@pytest.mark.parametrize("where", ["fails_to_load", "fails_to_run"])
def test_a_failure_is_told_with_its_reason_and_costs_nobody_else(where: str) -> None:
    broken: dict[str, tuple[Workload, ...]] = {where: (JOBS[1][0],)}
    device = FakeDevice(fails_to_load=broken.get("fails_to_load", ()),
                        fails_to_run=broken.get("fails_to_run", ()))  # fmt: skip
    good, failed, also_good = measure(device, JOBS, NOMINAL)
    reasons = {"fails_to_load": "out of memory", "fails_to_run": "it crashed with SIGSEGV"}
    assert failed.failed == reasons[where]
    assert math.isnan(failed.energy_j_per_step)
    assert math.isnan(failed.time_s_per_step)
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


class Counting(FakeDevice):
    """Its meter counts whole steps of joules; in too short a burst it does not move."""

    def __init__(self, step_j: float, noise: float = 0.0, seed: int = 0) -> None:
        super().__init__(noise=noise, seed=seed)
        self.resolution = Resolution(energy_j=step_j)
        self.total_j = 0.0

    def burst(self, handle: int, steps: int) -> Burst:
        burst = super().burst(handle, steps)
        step_j, before_j = self.resolution.energy_j, self.total_j
        self.total_j += burst.energy_j
        counted = self.total_j // step_j - before_j // step_j
        if not counted:
            raise MeterFault("meter did not move")
        return Burst(steps, counted * step_j, burst.time_s)


class Sampling(FakeDevice):
    """Its meter shows what the last sample showed."""

    def __init__(self, period_s: float, noise: float = 0.0, seed: int = 0) -> None:
        super().__init__(noise=noise, seed=seed)
        self.resolution = Resolution(period_s=period_s)
        self.total_j = self.shown_j = 0.0

    def burst(self, handle: int, steps: int) -> Burst:
        start_s, period_s, shown_j = self.clock_s, self.resolution.period_s, self.shown_j
        burst = super().burst(handle, steps)
        sampled_s = self.clock_s // period_s * period_s
        if sampled_s > start_s:
            share = (sampled_s - start_s) / burst.time_s
            self.shown_j = self.total_j + share * burst.energy_j
        self.total_j += burst.energy_j
        if self.shown_j == shown_j:
            raise MeterFault("meter did not move")
        return Burst(steps, self.shown_j - shown_j, burst.time_s)


class Faulty(FakeDevice):
    """Some readings cannot be true: those of these tries, counted for each network."""

    def __init__(self, tries: Collection[int], of: Workload = JOBS[1][0]) -> None:
        super().__init__()
        self.tries, self.of = tries, of
        self.tried = 0

    def burst(self, handle: int, steps: int) -> Burst:
        if self.loaded[handle] == self.of:
            self.tried += 1
            if self.tried in self.tries:
                raise MeterFault("meter ran backwards by 3 J")
        return super().burst(handle, steps)


coarse = pytest.mark.parametrize("kind, size", [
    (Counting, 0.05), (Counting, 0.5), (Counting, 5.0), (Sampling, 0.1), (Sampling, 1.0),
])  # fmt: skip
AT_ONCE = Effort(warmup_s=0.0)  # one try, then the bursts that count


def test_a_meter_that_tells_finely_gets_the_bursts_that_were_asked_for() -> None:
    for resolution in (Resolution(), Resolution(energy_j=1e-4, period_s=1e-3)):
        assert suited(Effort(), resolution, power_w=4.0) == Effort()
    long = Effort(burst_s=10.0)
    assert suited(long, Resolution(period_s=0.1), power_w=4.0) == long


def test_a_sensor_of_ten_hertz_gets_fewer_and_longer_bursts() -> None:
    found = suited(Effort(), Resolution(period_s=0.1), power_w=4.0)
    assert found.burst_s == pytest.approx(0.1 / (2 * 0.015))  # four of them average to the target
    assert (found.min_rounds, found.max_rounds) == (4, 8)
    assert (found.target, found.warmup_s) == (Effort().target, Effort().warmup_s)
    few = suited(Effort(min_rounds=2, max_rounds=3), Resolution(period_s=0.1), power_w=4.0)
    assert (few.min_rounds, few.max_rounds) == (2, 3)


def test_a_battery_gets_minutes_if_less_is_asked_of_it() -> None:
    battery = Resolution(energy_j=36.0, period_s=30.0)
    assert suited(Effort(target=0.05), battery, power_w=4.0).burst_s == pytest.approx(300.0)
    saving = suited(Effort(target=0.1), battery, power_w=0.6)  # a step takes 60 s, not 30
    assert saving.burst_s == pytest.approx(300.0)


@pytest.mark.parametrize(
    ("resolution", "power_w", "minutes"),
    [
        (Resolution(energy_j=36.0, period_s=30.0), 4.0, "67 minutes"),
        (Resolution(energy_j=36.0, period_s=30.0), 0.5, "160 minutes"),
        (Resolution(energy_j=36.0), 0.0, "inf minutes"),
    ],
)
def test_what_would_take_too_long_is_refused(
    resolution: Resolution, power_w: float, minutes: str
) -> None:
    with pytest.raises(MeterError, match="--precision") as caught:
        suited(Effort(), resolution, power_w)
    assert minutes in str(caught.value)
    assert "\n" not in str(caught.value)
    device = FakeDevice()
    device.resolution = replace(resolution, energy_j=1000 * resolution.energy_j)
    with pytest.raises(MeterError, match="another meter"):
        measure(device, JOBS, NOMINAL)


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


@coarse
def test_a_coarse_meter_is_watched_until_the_idle_power_is_known(
    kind: type[Counting] | type[Sampling], size: float
) -> None:
    found = take_reference(kind(size))
    assert found.idle_w == pytest.approx(NOMINAL.idle_w, rel=0.1)
    assert found.energy_j == pytest.approx(NOMINAL.energy_j, rel=0.02)
    assert found.time_s == pytest.approx(NOMINAL.time_s)


def test_the_way_to_a_device_is_no_part_of_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "CLOCKED_S", 0.3)

    class Distant(FakeDevice):
        """A millisecond a step, and 30 to reach it; its battery has not moved yet."""

        def burst(self, handle: int, steps: int) -> Burst:
            time.sleep(0.03 + 1e-3 * steps)
            raise MeterFault("meter did not move")

    assert measuring._warm_up(Distant(), 1, burst_s=10.0, warmup_s=0.05) > 6000  # of 10 000


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


@pytest.mark.parametrize("resolution", [Resolution(), Resolution(period_s=0.01)])
def test_a_fault_while_the_device_idles_is_no_idle_power(resolution: Resolution) -> None:
    device = Faulty({1, 2}, IDLE)
    device.resolution = resolution
    assert take_reference(device).idle_w == pytest.approx(NOMINAL.idle_w)


def test_a_meter_that_stands_still_while_the_device_idles_cannot_be_used() -> None:
    with pytest.raises(MeterError, match="does not move while the device is idle"):
        take_reference(Faulty(range(1000), IDLE))


def test_an_idle_power_that_nobody_knows_is_not_written_down() -> None:
    (row,) = measure(FakeDevice(), JOBS[:1], replace(NOMINAL, idle_w=0.0))
    assert row.idle_j_per_step is None
