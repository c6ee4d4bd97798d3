"""The example of a gated loop: it stops, saves, and goes on with what was spent."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ampere.gates.story import End, Start, read_events

SCRIPT = Path(__file__).parents[2] / "examples" / "04_gate.py"


def test_it_stops_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    example = runpy.run_path(str(SCRIPT))
    example["main"].__globals__.update(EPOCHS=2, SAMPLES=512, BUDGETS=("0.2 J", "10 kJ"))
    example["main"]()
    events = list(read_events((tmp_path / "build/gated/gate.jsonl").read_bytes().splitlines()))
    starts = [event for event in events if isinstance(event, Start)]
    ends = [event for event in events if isinstance(event, End)]
    assert len(starts) == len(ends) == 2
    assert starts[0].run == starts[1].run
    assert starts[1].spent_j >= ends[0].spent_j
    assert ends[1].step >= 32  # whole epochs, after one that was cut short
    assert "inside" in capsys.readouterr().out
