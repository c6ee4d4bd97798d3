"""The fleet of examples/ is planned as its pages say: from profiles to a page."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from ampere.fleet.plan import read_plan
from cli.runner import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with profiles of fewer networks, so that it takes seconds."""
    home = tmp_path_factory.mktemp("home") / "fleet"
    shutil.copytree(EXAMPLE, home, ignore=shutil.ignore_patterns("profiles", "plan.*"))
    script = home / "make_profiles.py"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace('"zoo:lenet5", 10', '"zoo:lenet5", 4'), encoding="utf-8")
    runpy.run_path(str(script), run_name="made")["main"]()
    return home


def test_it_is_planned_and_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    planned = run("schedule", "fleet.toml", "jobs.toml", "-o", "plan.json")
    assert planned.exit_code == 3, planned.output  # one job is meant to fit nowhere
    plan = read_plan("plan.json")
    assert [each.job for each in plan.unplaced] == ["own letters"]
    assert {each.job for each in plan.assignments} == {
        *("digits", "letters", "signs", "at night", "own digits"),
    }
    assert all(each.p_battery >= 0.9 - 1e-9 for each in plan.standings)
    own = next(each for each in plan.assignments if each.job == "own digits")
    assert own.member == "tablet" and 0.4 <= own.share < 1
    shown = run("report", "plan.json", "-o", "plan.html")
    assert shown.exit_code == 0, shown.output
    assert "A plan: 6 jobs on 4 devices" in Path("plan.html").read_text(encoding="utf-8")
