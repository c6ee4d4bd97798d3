"""A journal replayed as a device: what it has it gives back, anything else it does not have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import ampere
from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import network_identity
from ampere.core.workloads import IDLE, REFERENCE, Workload
from ampere.devices.base import Device
from ampere.devices.recorded import RecordedDevice
from ampere.errors import DataError, FingerprintError, JournalError, MeasurementFailed
from ampere.meters.base import Provenance
from ampere.records.failure import Failure
from ampere.records.journal import Header, Journal, read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure
from ampere.sittings.reference import Reference, take_reference
from fakes import FakeDevice, exact, plain_model, total

HEADER = Header(
    Fingerprint({"device": "board"}, {"host": "bench"}),
    {"name": "rapl"},
    Provenance.COUNTER,
    reference_time_s=1e-3,
    reference_energy_j=4e-3,
    idle_w=1.5,
)
MODELS = [plain_model(4, 8), plain_model(16), plain_model(32, 64, 2)]
NOMINAL = Reference(1.5, 1e-3, 4e-3)


def written(path: Path, rows: Sequence[Measurement], header: Header = HEADER) -> Path:
    with Journal.open(path, header) as journal:
        for row in rows:
            journal.append(row)
    return path


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A journal of three networks, measured on a machine that drifts and makes noise."""
    device = FakeDevice(noise=0.02, seed=4, drift=lambda clock_s: 1.2 + 0.2 * math.sin(clock_s))
    rows = measure(device, [(Workload(layers), layers) for layers in MODELS], NOMINAL)
    own = {"device": HEADER.fingerprint.id, "provenance": HEADER.provenance}
    rows = [replace(row, **own) for row in rows]
    return written(tmp_path / "measured.ampere", rows)


# --- the device -----------------------------------------------------------------------------------


def test_it_is_a_device_of_recorded_joules(measured: Path) -> None:
    device: Device = RecordedDevice(measured)
    assert device.provenance is Provenance.RECORDED
    assert device.provenance.metered == "recorded"
    assert device.fingerprint.identity == {"device": "board", "recorded": "yes"}
    assert device.fingerprint.conditions == {"host": "bench"}
    assert device.fingerprint.id != HEADER.fingerprint.id
    assert device.meter == {"name": "recorded", "settings": {"path": str(measured)}}
    device.close()


def test_bursts_come_back_in_their_order_with_the_drift_divided_out(measured: Path) -> None:
    device = RecordedDevice(measured)
    row = read_journal(measured)[1][1]
    (slower,), (hungrier,) = set(row.bursts["drift"]), set(row.bursts["energy_drift"])
    assert slower > 1.1 and hungrier > 1.1  # there is something to divide out
    handle = device.load(Workload(row.layers)).handle
    for i in [*range(row.repeats), *range(row.repeats)]:  # and then from the beginning
        burst = device.burst(handle, 7)
        assert burst.steps == 7
        assert burst.energy_j == pytest.approx(7 * row.bursts["energy_j"][i] / hungrier)
        assert burst.time_s == pytest.approx(7 * row.bursts["time_s"][i] / slower)


def test_several_are_loaded_side_by_side_and_forgotten(measured: Path) -> None:
    device = RecordedDevice(measured)
    first, second = (device.load(Workload(layers)).handle for layers in MODELS[:2])
    assert first != second
    energy_j = [device.burst(handle, 1).energy_j for handle in (first, second, first)]
    one, other, _ = (
        [joules / row.bursts["energy_drift"][0] for joules in row.bursts["energy_j"]]
        for row in sorted(read_journal(measured)[1], key=lambda row: MODELS.index(row.layers))
    )
    assert energy_j == pytest.approx([one[0], other[0], one[1]])
    device.unload(first)
    third = device.load(Workload(MODELS[2])).handle
    assert device.burst(second, 1).energy_j != device.burst(third, 1).energy_j
    device.unload(second)
    device.unload(third)


def test_idling_and_the_reference_are_what_the_header_says(measured: Path) -> None:
    found = take_reference(RecordedDevice(measured))
    assert found.idle_w == pytest.approx(1.5)
    assert (found.time_s, found.energy_j) == pytest.approx((1e-3, 4e-3))


def test_measuring_it_gives_the_recorded_figures(measured: Path) -> None:
    device = RecordedDevice(measured)
    again = measure(device, [(Workload(layers), layers) for layers in MODELS], NOMINAL)
    for row, known in zip(again, read_journal(measured)[1], strict=True):
        assert row.energy_j_per_step == pytest.approx(known.energy_j_per_step, rel=0.02)
        assert row.time_s_per_step == pytest.approx(known.time_s_per_step, rel=0.02)
        assert row.provenance is Provenance.RECORDED
        assert row.device == device.fingerprint.id


def test_another_network_or_stage_is_not_there(measured: Path) -> None:
    device = RecordedDevice(measured)
    for workload in (
        Workload(plain_model(5, 8)),
        Workload(MODELS[0][:-1]),
        Workload(MODELS[0], stage="forward"),
    ):
        with pytest.raises(MeasurementFailed, match="not in the recorded journal"):
            device.load(workload)
    failed, good = measure(
        device, [(Workload(plain_model(5)), plain_model(5)), (Workload(MODELS[0]), MODELS[0])],
        NOMINAL,
    )  # fmt: skip
    assert failed.failed == Failure("it is not in the recorded journal")
    assert good.failed is None


# --- journals of all sorts ------------------------------------------------------------------------


def test_a_journal_without_bursts_has_its_rows(tmp_path: Path) -> None:
    device = RecordedDevice(written(tmp_path / "j", [exact(layers) for layers in MODELS]))
    handle = device.load(Workload(MODELS[0])).handle
    true = total(MODELS[0])
    for steps in (1, 5):
        burst = device.burst(handle, steps)
        assert burst.energy_j == pytest.approx(steps * true.energy_j)
        assert burst.time_s == pytest.approx(steps * true.time_s)


@pytest.mark.parametrize(
    "bursts",
    [
        {"energy_j": [5.0]},
        {"energy_j": [5.0], "time_s": [], "energy_drift": [1.0], "drift": [1.0]},
        {"energy_j": [], "time_s": [], "energy_drift": [], "drift": []},
        {"energy_j": [None], "time_s": [0.1], "energy_drift": [1.0], "drift": [1.0]},
        {"energy_j": [5.0], "time_s": [0.1], "energy_drift": [1.0], "drift": [1.0], "outlier": [0]},
    ],
)
def test_bursts_that_say_nothing_leave_the_row_itself(
    tmp_path: Path, bursts: dict[str, Any]
) -> None:
    row = replace(exact(MODELS[0]), bursts=bursts)
    device = RecordedDevice(written(tmp_path / "j", [row]))
    handle = device.load(Workload(MODELS[0])).handle
    assert device.burst(handle, 1).energy_j == pytest.approx(row.energy_j_per_step)


def test_a_lost_reading_among_others_is_passed_over(tmp_path: Path) -> None:
    ones = [1.0, 1.0, 1.0]
    bursts = {"energy_j": [2.0, None, 4.0], "time_s": ones, "energy_drift": ones, "drift": ones}
    device = RecordedDevice(written(tmp_path / "j", [replace(exact(MODELS[0]), bursts=bursts)]))
    handle = device.load(Workload(MODELS[0])).handle
    assert [device.burst(handle, 1).energy_j for _ in range(3)] == [2.0, 4.0, 2.0]


def test_rows_that_failed_or_have_no_seconds_are_not_replayed(tmp_path: Path) -> None:
    rows = [
        exact(MODELS[0]),
        Measurement(MODELS[1], failed=Failure("out of memory")),
        replace(exact(MODELS[2]), time_s_per_step=None),
        replace(exact(MODELS[1]), stage="forward"),
    ]
    device = RecordedDevice(written(tmp_path / "j", rows))
    assert [row.layers for row in device.networks] == [MODELS[0]]
    for layers in MODELS[1:]:
        with pytest.raises(MeasurementFailed):
            device.load(Workload(layers))
    forward = device.load(Workload(MODELS[1], stage="forward")).handle
    assert device.burst(forward, 1).energy_j > 0


def test_without_a_whole_step_there_is_nothing_to_replay(tmp_path: Path) -> None:
    for name, rows in {
        "empty": [],
        "failed": [Measurement(MODELS[0], failed=Failure("out of memory"))],
        "stages": [replace(exact(MODELS[0]), stage="forward")],
    }.items():
        path = written(tmp_path / name, rows)
        with pytest.raises(DataError, match=f"{name} has no measurement to replay"):
            RecordedDevice(path)
    with pytest.raises(JournalError, match="does not exist"):
        RecordedDevice(tmp_path / "absent")


def test_a_journal_that_was_told_has_no_scale_and_needs_none(tmp_path: Path) -> None:
    told = replace(HEADER, reference_time_s=None, reference_energy_j=None, idle_w=None)
    device = RecordedDevice(written(tmp_path / "j", [exact(layers) for layers in MODELS], told))
    nominal = take_reference(device)
    rows = measure(device, [(Workload(layers), layers) for layers in MODELS], nominal)
    for row, layers in zip(rows, MODELS, strict=True):
        assert row.energy_j_per_step == pytest.approx(total(layers).energy_j)
        assert row.idle_j_per_step is None  # nobody knows
    for workload in (IDLE, REFERENCE):
        assert device.burst(device.load(workload).handle, 3).steps == 3


# --- profiling on it ------------------------------------------------------------------------------


def net() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3)
    )


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    strategy = ampere.Strategy(max_measurements=12, tolerance=1e-9)
    path = tmp_path_factory.mktemp("real") / "real.ampere"
    ampere.profile(net(), (8,), path=path, device=FakeDevice(noise=0.01), strategy=strategy)
    return path.read_bytes()


@pytest.fixture
def profiled(tmp_path: Path, journal: bytes) -> Path:
    path = tmp_path / "real.ampere"
    path.write_bytes(journal)
    return path


def networks(rows: Sequence[Measurement]) -> list[object]:
    return [network_identity(row.layers) for row in rows]


def test_a_profile_on_it_measures_recorded_networks_only(profiled: Path, tmp_path: Path) -> None:
    known = read_journal(profiled)[1]
    device = ampere.open_device(f"recorded:{profiled}")
    strategy = ampere.Strategy(max_measurements=8, tolerance=1e-9)
    path = tmp_path / "again.ampere"
    profile = ampere.profile(net(), (8,), path=path, device=device, strategy=strategy)
    assert len(profile.measurements) == 8
    assert not any(row.failed for row in profile.measurements)
    assert set(networks(profile.measurements)) < set(networks(known))
    by_network = dict(zip(networks(known), known, strict=True))
    for row in profile.measurements:
        recorded = by_network[network_identity(row.layers)]
        assert row.energy_j_per_step == pytest.approx(recorded.energy_j_per_step, rel=0.02)
    assert profile.provenance is Provenance.SIMULATED  # as they were: recording measures nothing
    estimate = profile.estimate(net(), (8,))
    original = ampere.Profile.load(profiled).estimate(net(), (8,))
    assert estimate.energy_j == pytest.approx(original.energy_j, rel=0.1)


def test_the_papers_method_has_nothing_to_choose_there(profiled: Path, tmp_path: Path) -> None:
    strategy = ampere.Strategy("paper")
    with pytest.raises(DataError, match="use method additive"):
        ampere.profile(
            net(), (8,), path=tmp_path / "p", device=RecordedDevice(profiled), strategy=strategy
        )


def test_it_ends_when_all_that_is_recorded_was_measured(profiled: Path, tmp_path: Path) -> None:
    strategy = ampere.Strategy(tolerance=1e-9)
    profile = ampere.profile(
        net(), (8,), path=tmp_path / "all.ampere", device=RecordedDevice(profiled),
        strategy=strategy, effort=Effort(min_rounds=3, max_rounds=3),
    )  # fmt: skip
    recorded = networks(read_journal(profiled)[1])
    assert len(recorded) == len(set(recorded)) + 2  # those that it came back to
    found = networks(profile.measurements)
    assert len(found) == len(set(found))
    assert set(found) == set(recorded)
    assert not profile.notes


def test_recorded_and_real_rows_do_not_mix(profiled: Path) -> None:
    with pytest.raises(FingerprintError, match="recorded is yes here, not set there"):
        ampere.profile(net(), (8,), path=profiled, device=RecordedDevice(profiled))
