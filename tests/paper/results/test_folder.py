"""Folders of results: what is ours, whose plan, which devices."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ampere.errors import DataError
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.experiments.experiment import Experiment
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


FIG5: dict[str, Any] = {
    "format": 1,
    "when": "2026-01-01",
    "plan": {"name": "tiny", "sizes": {}, "recorded": False},
    "data": [],
}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("plan.json", {"a": 1}, r"\(plan is missing: it must be a text\): choose another folder"),
        ("plan.json", [1, 2], r"\(it must be an object, not \[1, 2\]\): choose another folder"),
        ("plan.json", "{", r"\(not JSON .*choose another folder"),
        ("plan.json", {"plan": 3, "begun": "", "machine": ""}, "plan must be a text, not 3"),
        ("plan.json", b"\xff\xfe", "not JSON"),
        ("plan.json", b"\x1f\x8b\x08" + bytes(9), "cannot be unpacked"),
        ("fig5", [], r"\(it must be an object, not \[\]\): delete it, and it is made anew"),
        ("fig5", {"format": 1, "data": []}, r"\(plan is missing: .*delete it"),
        ("fig5", '{"format', "not JSON .*delete it, and it is made anew"),
        ("fig5", {**FIG5, "format": "1"}, "format must be a whole number"),
        ("fig5", {**FIG5, "when": 5}, "when must be a text, not 5"),
        ("fig5", {**FIG5, "plan": {"sizes": []}}, "plan.sizes must be an object"),
        ("fig5", {**FIG5, "data": float("inf")}, "not JSON"),
        ("fig5", json.dumps(FIG5).replace("[]", "[1e999]"), "data.0 must be a number"),
        ("fig5", json.dumps(FIG5).replace("[]", "[" * 40 + "]" * 40), "larger or deeper"),
        ("fig5", json.dumps(FIG5).replace("[]", "[" * 10**5 + "]" * 10**5), "not JSON"),
        ("fig5", {**FIG5, "data": ["\ud800"]}, "no text that can be written"),
        ("fig5", {**FIG5, "data": [0] * 10_001}, "larger or deeper"),
    ],
)
def test_files_that_are_damaged_or_not_ours(
    tmp_path: Path, name: str, content: Any, said: str
) -> None:
    Results.claim(tmp_path, ONE)
    file = tmp_path / (name if "." in name else f"data/{name}.json")
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    for read in (lambda: reproduce(tmp_path, ONE, ["fig5"]),
                 lambda: Results.open(tmp_path).write_pages({})):  # fmt: skip
        with pytest.raises(DataError, match=said) as caught:
            read()
        assert str(caught.value).startswith(f"{file} is damaged, or not of ampere (")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
@pytest.mark.parametrize(
    "data", [7, "text", {}, [], [7], [{}], [{"title": 1, "bench": {}}], {"cuts": [{}], "study": 1}]
)
def test_data_that_are_not_an_experiments_name_their_file(
    tmp_path: Path, experiment: Experiment, data: Any
) -> None:
    results = Results.claim(tmp_path, ONE)
    file = tmp_path / "data" / f"{experiment.name}.json"
    file.write_text(json.dumps({**FIG5, "data": data}))
    for read in (lambda: results.write_pages({}), lambda: results.refuse_damaged(())):
        try:
            read()
        except DataError as error:
            assert str(error).startswith(f"{file} is damaged (")
            assert "\n" not in str(error) and len(str(error)) < 400


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["plan.json", "data/fig5.json"])
def test_pipes_in_a_folder_are_not_waited_for(tmp_path: Path, name: str) -> None:
    Results.claim(tmp_path, ONE)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=r"no file|holds no results"):
        Results.open(tmp_path).write_pages({})


def test_links_in_a_folder_lead_nowhere(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    results = Results.claim(tmp_path / "out", ONE)
    for name in ("index.html", "index.md"):
        (tmp_path / "out" / name).symlink_to(precious)
    results.write_pages({})
    assert precious.read_text() == "mine"
    assert not (tmp_path / "out" / "index.html").is_symlink()


@pytest.mark.parametrize("name", ["index.html", "figures"])
def test_files_of_others_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"has {name}, but not of ampere: choose another folder"):
        reproduce(tmp_path, ONE, ["fig5"])
    assert [path.name for path in tmp_path.iterdir()] == [name]
