"""Runs under what a user named: folders, files, folders of runs, and what is not there yet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampere.reports.live import places
from ampere.reports.live import watch as module
from ampere.reports.live.places import find_runs
from ampere.reports.live.watch import Watch
from told_runs import BEGUN, append, ended, finished, looks, started, text_of, write_run

NOW = BEGUN.timestamp() + 600


@pytest.fixture(autouse=True)
def search_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEARCH_S", 0.0)


def watched(*named: Path) -> Watch:
    watch = Watch(named, clock=lambda: NOW)
    watch.catch_up()
    return watch


def old(path: Path) -> Path:
    os.utime(path, (BEGUN.timestamp(), BEGUN.timestamp()))
    return path


def test_a_folder_a_file_a_folder_of_runs_each_run_once(tmp_path: Path) -> None:
    a = write_run(tmp_path / "runs" / "a", finished())
    write_run(tmp_path / "runs" / "group" / "b", finished(run="b", name=""))
    write_run(tmp_path / "runs" / ".hidden" / "c", finished())
    write_run(tmp_path / "runs" / "1" / "2" / "3" / "4", finished())
    a.rename(other := a.with_name("other.jsonl"))
    write_run(tmp_path / "runs" / "a", finished())
    found, more = find_runs([tmp_path / "runs", a, a.parent, other])
    assert [place.label for place in found] == ["a", "group/b", "other.jsonl"]
    assert not more and len({place.key for place in found}) == 3
    runs = watched(tmp_path / "runs").runs
    assert [run.name for run in runs] == ["cnn5 on digits", "group/b"]


def test_there_may_be_more_than_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write_run(tmp_path / name, [])
    monkeypatch.setattr(places, "MOST_RUNS", 2)
    found, more = find_runs([tmp_path])
    assert ([place.label for place in found], more) == (["a", "b"], True)


def test_runs_are_waited_for_and_found(tmp_path: Path) -> None:
    watch = watched(tmp_path / "runs")
    (run,) = watch.runs
    assert run.standing(NOW).sentence == "waits for its first line: it is not there yet"
    write_run(tmp_path / "runs" / "a", [started(run="a")])
    write_run(tmp_path / "runs" / "b", [started(run="b")])
    watch.look()
    assert [run.place.label for run in watch.runs] == ["a", "b"]
    assert all(run.history.start for run in watch.runs)
    assert watch.find(watch.runs[1].place.key) is watch.runs[1]
    assert watch.find("a") is None


def test_a_run_is_followed_and_told_anew_when_its_file_is_another(tmp_path: Path) -> None:
    path = write_run(tmp_path / "a", [started()])
    watch = watched(path)
    told = list(looks(until=100))
    append(path, *told)
    watch.look()
    assert watch.runs[0].history.step == 100
    path.write_text(text_of([started(run="new"), *told[:2]]))
    watch.look()
    assert watch.runs[0].history.step == 20
    path.unlink()
    watch.look()
    (run,) = watch.runs
    assert (run.history.step, run.obstacle) == (20, "its file is gone")


def test_a_crashed_run_is_known_by_its_silence(tmp_path: Path) -> None:
    told = list(looks(until=100))
    crashed = old(write_run(tmp_path / "a", [started(), *told]))
    watch = watched(crashed)
    (run,) = watch.runs
    assert run.standing(BEGUN.timestamp() + 100).word == "running"
    assert run.standing(BEGUN.timestamp() + 300).word == "silent"
    assert run.standing(BEGUN.timestamp() + 3000).word == "crashed"
    # A clock that is ahead says nothing: the file's own time does.
    assert run.standing(BEGUN.timestamp() - 3000).word == "running"
    os.utime(crashed, (BEGUN.timestamp() - 9000,) * 2)
    watch.look()
    assert run.standing(BEGUN.timestamp() - 3000).word == "crashed"


def test_all_runs_have_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write_run(tmp_path / name, [started(run=name)])
    monkeypatch.setattr(module, "PATIENCE_S", -1.0)  # one file a look
    watch = Watch([tmp_path])
    assert [watch.look() for _ in range(3)] == [True, True, False]


def test_plain_data(tmp_path: Path) -> None:
    told = list(looks(until=100))
    old(write_run(tmp_path, [started(), *told, ended(told[-1])]))
    (row,) = watched(tmp_path).to_json()
    assert row["file"] == str(tmp_path / "gate.jsonl")
    assert (row["state"], row["step"], row["steps"]) == ("finished", 100, 2000)
    assert (row["spent_j"], row["provenance"]) == (told[-1].spent_j, "simulated")
    assert row["verdict"] == "took 0.222 of 5 Wh"
