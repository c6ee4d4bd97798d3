"""Folders of results: what is ours, whose plan, which devices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ampere.errors import DataError
from ampere_paper.reproduction import reproduce
from ampere_paper.results.folder import Results

from ..small import ONE, PLAN, data_of


def test_refitting_needs_journals(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no results"):
        reproduce(tmp_path / "none", ONE, refit=True)
    Results.claim(tmp_path, ONE)
    with pytest.raises(DataError, match="has no journals: measure without --refit first"):
        reproduce(tmp_path, ONE, refit=True)


def test_a_folder_that_no_run_has_filled(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no results: fill it with `ampere reproduce -o"):
        Results.open(tmp_path)


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    reproduce(tmp_path, ONE, ["fig5"])
    with pytest.raises(DataError, match="holds measurements of the tiny plan"):
        reproduce(tmp_path, replace(ONE, name="other"), ["fig5"])


def test_data_of_more_devices_serve_and_are_never_replaced_by_fewer(tmp_path: Path) -> None:
    (both,) = reproduce(tmp_path, PLAN, ["fig5"]).outcomes
    (one,) = reproduce(tmp_path, ONE, ["fig5"]).outcomes
    assert one.data == both.data
    (refused,) = reproduce(tmp_path, ONE, ["fig5"], refit=True).failed
    assert "has fig5 of oppo too: ask for these devices as well" in (refused.failed or "")
    (refused,) = reproduce(tmp_path, PLAN.on(["oppo"]), ["fig5"], refit=True).failed
    assert data_of(tmp_path, "fig5") == both.data


def test_data_of_other_devices_are_not_replaced(tmp_path: Path) -> None:
    (xavier,) = reproduce(tmp_path, ONE, ["fig5"]).outcomes
    (refused,) = reproduce(tmp_path, PLAN.on(["oppo"]), ["fig5"]).failed
    assert "has fig5 of xavier too" in (refused.failed or "")
    assert data_of(tmp_path, "fig5") == xavier.data
    (both,) = reproduce(tmp_path, PLAN, ["fig5"]).outcomes
    assert [row["bench"] for row in both.data] == ["oppo", "xavier"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("plan.json", '{"a": 1}', "plan.json is not of ampere: choose another folder"),
        ("plan.json", "[1, 2]", "plan.json is not of ampere: choose another folder"),
        ("plan.json", "{", r"plan.json is damaged \(not JSON .*choose another folder"),
        ("data/fig5.json", "[]", "fig5.json is not of ampere: delete it, and it is made anew"),
        ("data/fig5.json", '{"format": 1, "data": []}', "fig5.json is not of ampere: delete it"),
        ("data/fig5.json", '{"format', "fig5.json is damaged .*delete it, and it is made anew"),
    ],
)
def test_files_that_are_damaged_or_not_ours(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    Results.claim(tmp_path, ONE)
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=said):
        reproduce(tmp_path, ONE, ["fig5"])
    with pytest.raises(DataError, match=said):
        Results.open(tmp_path).write_pages({})


@pytest.mark.parametrize("name", ["index.html", "figures"])
def test_files_of_others_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"has {name}, but not of ampere: choose another folder"):
        reproduce(tmp_path, ONE, ["fig5"])
    assert [path.name for path in tmp_path.iterdir()] == [name]
