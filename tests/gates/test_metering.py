"""The meter of a run: who else reads it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ampere.core.lock import lock_file, open_own
from ampere.gates import metering
from ampere.gates.metering import RunMeter
from gates.worlds import HandMeter


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """On a machine whose meter all processes share."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(metering, "choose_meter", lambda name, accelerator: "rapl")
    monkeypatch.setattr(metering, "calibrated", lambda name, settings: settings)
    monkeypatch.setattr(metering, "open_meter", lambda name, **settings: HandMeter())
    return []


def test_a_gate_that_is_entered_twice_is_not_its_own_neighbour(said: list[str]) -> None:
    opener = RunMeter("rapl", note=said.append)
    for _ in range(2):
        opener().close()
    assert said == []
    assert opener._lock is not None
    opener._lock.close()


def test_another_gate_at_the_same_meter_is_told(said: list[str], tmp_path: Path) -> None:
    with open_own(tmp_path / "ampere-gate-rapl.lock") as other:
        lock_file(other)
        RunMeter("rapl", note=said.append)().close()
    (text,) = said
    assert text.endswith("reads the meter rapl, too: each counts the joules of both")
