"""`ampere card`: a snippet of a run, or one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere.gates.sinks.registry import open_sink
from cli.runner import answer, check_bad_line, last_line, run
from gates.stories import start, status, story, tell


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tell(open_sink("json", "runs/a"), story())
    unfinished = open_sink("json", "runs/b")
    tell(unfinished, [start(carbon_g_per_kwh=None), status(1, spent_gco2e=None)])
    Path("notes.jsonl").write_text("hello\nyou\n")


def test_a_run_or_its_file() -> None:
    result = run("card", "runs/a", "--training-type", "fine-tuning")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("co2_eq_emissions:\n  emissions: 0.0056\n")
    assert '  geographical_location: "France"\n' in result.stdout
    assert (
        run("card", "runs/a/gate.jsonl", "--training-type", "fine-tuning").stdout == result.stdout
    )


def test_another_grid_as_json() -> None:
    row = answer(run("card", "runs/a", "--carbon", "1 kg/kWh", "--json"))
    assert row["co2_eq_emissions"]["emissions"] == 0.1
    assert (row["energy_j"], row["provenance"]) == (360.0, "modelled")


def test_a_run_that_goes_on_is_told_so_far() -> None:
    result = run("card", "runs/b", "--carbon", "FR")
    assert result.exit_code == 0
    assert last_line(result) == "warning: the run has no end: what it took so far is told"


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("card", 2, "RUN"),
        ("card absent", 1, "absent/gate.jsonl cannot be read: No such file"),
        ("card notes.jsonl", 1, "notes.jsonl, line 1: not JSON"),
        ("card runs/b", 1, "told no carbon intensity: give --carbon FR"),
        ("card runs/a --carbon Mordor", 1, "is no country"),
        ("card runs/a --training-type magic", 1, "pre-training, fine-tuning"),
    ],
)
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
