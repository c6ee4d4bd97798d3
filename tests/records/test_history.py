"""Journals of older versions are read as what they mean today."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ampere.core.fingerprint import Fingerprint
from ampere.profiles.profile import Profile
from ampere.records.journal import devices_of, read_journal

KIND = "first conv2d3x3 @3x8x8 b10 float32 sgd #cbef01"


def journal(path: Path, amp: str) -> Path:
    """As ampere 0.6 wrote it."""
    header: dict[str, Any] = {
        "ampere_journal": 1,
        "created": "2026-01-01T00:00:00+00:00",
        "device": {"identity": {"machine": "x86_64", "amp": amp}},
        "meter": {"name": "cpu"},
        "provenance": "modelled",
        "reference": {"time_s": 0.001, "energy_j": 0.01},
    }
    attributes = {"batch": 10, "optimizer": "sgd"}
    layer = {"kind": KIND, "role": "first", "widths": {"out": 4}, "attributes": attributes}
    row = {"layers": [layer], "energy_j_per_step": 1.0, "time_s_per_step": 1.0}
    row["device"] = Fingerprint(header["device"]["identity"]).id
    path.write_text(f"{json.dumps(header)}\n{json.dumps(row)}\n")
    return path


def test_mixed_precision_was_the_devices_and_is_the_trainings(tmp_path: Path) -> None:
    header, (row,) = read_journal(journal(tmp_path / "a", "True"))
    assert header.fingerprint.identity == {"machine": "x86_64"}
    assert header.reference_time_s is None  # the reference ran with mixed precision, too
    assert row.layers[0].kind.name == KIND.replace("float32", "float32+amp")
    assert Profile.load(tmp_path / "a").training.amp


def test_without_mixed_precision_only_the_identity_changes(tmp_path: Path) -> None:
    header, (row,) = read_journal(journal(tmp_path / "a", "False"))
    assert header.fingerprint.identity == {"machine": "x86_64"}
    assert header.reference_time_s == 0.001
    assert row.layers[0].kind.name == KIND
    assert row.layers[0].kind.attributes == {"batch": 10, "optimizer": "sgd"}


@pytest.mark.parametrize("amp", ["True", "False"])
def test_rows_are_of_the_journals_own_device_as_ever(tmp_path: Path, amp: str) -> None:
    header, rows = read_journal(journal(tmp_path / "a", amp))
    assert devices_of(header, rows) == (header.fingerprint.id,)


def test_no_kept_journal_is_taken_for_a_mixture() -> None:
    root = Path(__file__).parents[2]
    kept = [*(root / "docs/paper/journals").glob("*.gz")][::9]
    kept += [*(root / "benchmarks/results").glob("*.ampere.gz")][::9]
    assert len(kept) > 20
    assert all(len(devices_of(*read_journal(path))) == 1 for path in kept)
