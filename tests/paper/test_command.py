"""`ampere reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ampere.cli.app import app
from ampere.errors import DataError
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.experiments.fig2 import Fig2
from ampere_paper.lab.laboratory import Laboratory


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_the_command_answers_and_goes_on(tmp_path: Path) -> None:
    options = ("--quick", "--only", "fig2", "--device", "xavier", "-o", tmp_path / "out")
    first = run(*options)
    assert first.exit_code == 0, first.stderr
    assert "R²" in first.stdout
    assert "0/1 fig2: " in first.stderr
    row = json.loads(run(*options, "--json").stdout)
    assert row["devices"] == ["xavier"]
    assert row["experiments"]["fig2"]["failed"] is None


def test_the_command_tells_faults_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unlucky(Fig2):
        def measure(self, lab: Laboratory) -> None:
            raise DataError("no luck")

    monkeypatch.setitem(EXPERIMENTS, "fig2", Unlucky())
    failed = run("--quick", "--only", "fig2", "--device", "xavier", "-o", tmp_path / "out")
    assert failed.exit_code == 1
    assert "error: 1 of 1 experiments failed (fig2: no luck)" in failed.stderr.splitlines()[-1]
    unknown = run("--only", "fig99", "-o", tmp_path / "none")
    assert unknown.exit_code == 1
    assert "there is no experiment 'fig99'" in unknown.stderr
    assert not (tmp_path / "none").exists()


def test_the_command_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(Fig2):
        def measure(self, lab: Laboratory) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "fig2", Interrupting())
    ended = run("--quick", "--only", "fig2", "--device", "xavier", "-o", tmp_path / "out")
    assert ended.exit_code == 130
    assert "the same command goes on from there" in ended.stderr
