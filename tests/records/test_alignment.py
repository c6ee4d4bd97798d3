"""A log recorded beside a profile: its joules end up in the right bursts, or nowhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import ampere
from ampere.core.fingerprint import Fingerprint
from ampere.errors import DataError, MeterError
from ampere.meters.base import Provenance
from ampere.meters.drivers.log import PULSE
from ampere.meters.trace_files import read_trace
from ampere.meters.traces import PowerTrace
from ampere.records.alignment import align
from ampere.records.failure import Failure
from ampere.records.journal import Header, Journal
from ampere.records.measurement import Measurement
from fakes import plain_model

EPOCH = 1_790_000_000.0


def row(at: list[float], time_s: float = 0.1, steps: int = 10, **changes: object) -> Measurement:
    """Bursts of `steps` steps that began at these moments; the joules are some model's."""
    n = len(at)
    bursts = {
        "steps": steps,
        "at": at,
        "energy_j": [9.0] * n,
        "time_s": [time_s] * n,
        "drift": [1.0] * n,
        "energy_drift": [1.0] * n,
        "outlier": [],
    }
    found = Measurement(
        plain_model(8, 16),
        9.0,
        time_s,
        repeats=n,
        provenance=Provenance.MODELLED,
        bursts=bursts,
    )
    return replace(found, **changes)


def log(path: Path, power_w: Callable[[float], float], until_s: float, clock: float = 0.0) -> Path:
    """A log of a sample every 10 ms."""
    lines = [f"{clock + i / 100:.3f},{power_w(i / 100):.6f}" for i in range(round(100 * until_s))]
    path.write_text("\n".join(["time_s,power_w", *lines]) + "\n")
    return path


def trace(tmp_path: Path, power_w: Callable[[float], float], until_s: float = 20.0) -> PowerTrace:
    return read_trace(str(log(tmp_path / "log.csv", power_w, until_s)))


def test_joules_are_those_of_the_log(tmp_path: Path) -> None:
    found = align([row([2.0, 5.0])], trace(tmp_path, lambda t: 3.0))[0]
    assert found.energy_j_per_step == pytest.approx(0.3)  # 3 W for a tenth of a second
    assert found.time_s_per_step == 0.1
    assert (found.provenance, found.repeats) == (Provenance.EXTERNAL, 2)
    assert found.bursts["energy_j"] == pytest.approx([0.3, 0.3])


def test_each_burst_has_its_own(tmp_path: Path) -> None:
    found = align([row([2.0, 12.0])], trace(tmp_path, lambda t: 2.0 if t < 10 else 4.0))[0]
    assert found.bursts["energy_j"] == pytest.approx([0.2, 0.4])
    assert found.energy_j_per_step == pytest.approx(0.3)
    assert found.spread == pytest.approx(math.sqrt(0.02) / 0.3)


def test_what_slowed_everything_down_is_divided_out(tmp_path: Path) -> None:
    slow = row([2.0, 12.0])
    slow = replace(slow, bursts={**slow.bursts, "drift": [1.0, 2.0]})
    found = align([slow], trace(tmp_path, lambda t: 2.0 if t < 10 else 4.0))[0]
    assert found.energy_j_per_step == pytest.approx(0.2)


def test_outliers_stay_out(tmp_path: Path) -> None:
    marked = row([2.0, 12.0])
    marked = replace(marked, bursts={**marked.bursts, "outlier": [1]})
    found = align([marked], trace(tmp_path, lambda t: 2.0 if t < 10 else 400.0))[0]
    assert found.energy_j_per_step == pytest.approx(0.2)


def test_an_offset_is_added_to_the_clock_of_the_log(tmp_path: Path) -> None:
    power = trace(tmp_path, lambda t: 2.0 if t < 10 else 4.0)
    assert align([row([22.0])], power, 20.0)[0].energy_j_per_step == pytest.approx(0.2)
    assert align([row([32.0])], power, 20.0)[0].energy_j_per_step == pytest.approx(0.4)


def test_a_log_that_does_not_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="the log covers"):
        align([row([25.0])], trace(tmp_path, lambda t: 2.0))


def test_a_gap_in_the_log_leaves_its_bursts_out(tmp_path: Path) -> None:
    power = trace(tmp_path, lambda t: math.nan if 4.9 < t < 7.0 else 2.0)
    found = align([row([2.0, 5.5]), row([5.2])], power)
    assert (found[0].repeats, found[0].failed) == (1, None)
    assert found[0].energy_j_per_step == pytest.approx(0.2)
    assert "nothing usable" in str(found[1].failed)


def test_bursts_too_short_for_the_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--burst-s 0\.05"):
        align([row([2.0], time_s=0.001)], trace(tmp_path, lambda t: 2.0))


def test_rows_that_do_not_say_when_are_refused(tmp_path: Path) -> None:
    old = replace(row([2.0]), bursts={})
    with pytest.raises(DataError, match="when its bursts began"):
        align([old], trace(tmp_path, lambda t: 2.0))


def test_rows_that_the_log_cannot_tell_of_are_left_out(tmp_path: Path) -> None:
    """Modelled joules must not end up among measured ones."""
    good = row([2.0])
    others = [
        Measurement(plain_model(8), failed=Failure("out of memory")),
        replace(good, bursts={}),
        replace(good, bursts={**good.bursts, "time_s": [None]}),
        replace(good, bursts={**good.bursts, "at": [2.0, 3.0]}),
    ]
    (found,) = align([*others, good], trace(tmp_path, lambda t: 2.0))
    assert found.energy_j_per_step == pytest.approx(0.2)
    del good.bursts["outlier"]
    assert len(align([good], trace(tmp_path, lambda t: 2.0))) == 1


@pytest.mark.parametrize("provenance", [Provenance.SIMULATED, Provenance.RECORDED])
def test_nobody_recorded_a_log_beside_a_simulation(tmp_path: Path, provenance: Provenance) -> None:
    path = tmp_path / "old.ampere"
    header = Header(Fingerprint({"device": "board"}), {"name": "cpu"}, provenance)
    with Journal.open(path, header) as journal:
        journal.append(row([2.0]))
    power = log(tmp_path / "log.csv", lambda t: 2.0, 20.0)
    with pytest.raises(DataError, match=f"is {provenance.value}: no log was recorded"):
        ampere.align(path, power, tmp_path / "new.ampere")


def test_a_pulse_sets_the_clocks(tmp_path: Path) -> None:
    def busy(seconds: float) -> bool:
        """The pulse begins 4.0137 seconds into the log, off every grid; the burst at 14."""
        since = seconds - 4.0137
        for i, part in enumerate(PULSE):
            if 0 <= since < part:
                return i % 2 == 0
            since -= part
        return 14.0 <= seconds < 15.0

    path = tmp_path / "old.ampere"
    header = Header(Fingerprint({"device": "board"}), {"name": "cpu"}, Provenance.MODELLED)
    with Journal.open(path, header) as journal:
        journal.append(row([EPOCH + 14.0]))
    power = log(tmp_path / "log.csv", lambda t: 5.0 if busy(t) else 1.0, 20.0, clock=100.0)
    profile = ampere.align(path, power, tmp_path / "new.ampere", pulse_at=EPOCH + 4.0137)
    (found,) = profile.measurements
    assert found.energy_j_per_step == pytest.approx(0.5, rel=0.03)
    assert profile.provenance is Provenance.EXTERNAL
    saved = [json.loads(line) for line in (tmp_path / "new.ampere").read_text().splitlines()]
    assert saved[0]["provenance"] == "external"
    assert path.read_text().splitlines()[0] != saved[0]  # the old one is as it was
    with pytest.raises(DataError, match="exists"):
        ampere.align(path, power, tmp_path / "new.ampere", pulse_at=EPOCH + 4.0137)


@pytest.mark.parametrize("power_w", [0.0, -0.01])
def test_a_log_that_shows_no_power_gives_no_joules(tmp_path: Path, power_w: float) -> None:
    with pytest.raises(DataError, match="no usable joules for any row"):
        align([row([2.0, 5.0])], trace(tmp_path, lambda t: power_w))
    dark, lit = row([2.0, 5.0]), row([12.0, 15.0])
    found, other = align([dark, lit], trace(tmp_path, lambda t: power_w if t < 9 else 3.0 + t % 1))
    assert (found.energy_j_per_step, found.bursts) == (None, {})
    assert "nothing usable" in str(found.failed)
    assert other.failed is None


def test_the_samples_of_another_meter_are_left_behind(tmp_path: Path) -> None:
    sampled = row([2.0, 5.0])
    sampled = replace(sampled, bursts={**sampled.bursts, "samples": [12, 13]})
    (found,) = align([sampled], trace(tmp_path, lambda t: 3.0))
    assert "samples" not in found.bursts
