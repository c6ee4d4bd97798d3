"""A file that is followed: appended to, cut, replaced, endless, gone, and no file at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampere.gates.story import LONGEST_LINE
from ampere.reports.live import follower
from ampere.reports.live.follower import Follower, Look


def texts(look: Look) -> list[bytes | None]:
    return [line.text for line in look.lines]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gate.jsonl"


def test_lines_are_told_once_and_whole(path: Path) -> None:
    followed = Follower(path)
    assert followed.look().obstacle == "it is not there yet"
    path.write_bytes(b"one\n\ntw")
    first = followed.look()
    assert (texts(first), first.anew, first.obstacle) == ([b"one"], False, "")
    assert texts(followed.look()) == []
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    (two, three) = followed.look().lines
    assert (two.number, two.text, three.number) == (3, b"two", 4)


@pytest.mark.parametrize("way", ["cut", "shorter", "renamed", "same length", "longer", "removed"])
def test_what_is_written_anew_is_told_anew(path: Path, way: str) -> None:
    path.write_bytes(b"old 1\nold 2\n")
    followed = Follower(path)
    followed.look()
    if way == "cut":
        os.truncate(path, 0)
        assert followed.look().anew
        path.write_bytes(b"new\n")
        assert texts(followed.look()) == [b"new"]
        return
    if way == "removed":
        path.unlink()
        assert followed.look().obstacle == "its file is gone"
    other = path.with_name("other")
    content = {"shorter": b"new\n", "same length": b"new 1\nnew 2\n"}.get(way, b"new\n" * 9)
    other.write_bytes(content)
    if way in ("renamed", "removed"):
        other.rename(path)
    else:
        path.write_bytes(content)
    look = followed.look()
    assert look.anew
    assert texts(look) == content.split()[: len(look.lines)] or way == "same length"
    assert look.lines[0].number == 1


def test_much_is_read_in_turns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "AT_ONCE", 10)
    path.write_bytes(b"12345\n" * 5)
    followed, told = Follower(path), []
    while (look := followed.look()).behind:
        told += texts(look)
    assert told + texts(look) == [b"12345"] * 5


def test_an_endless_line_is_lost_and_the_next_one_is_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "AT_ONCE", LONGEST_LINE // 2)
    path.write_bytes(b"a\n" + b"x" * (2 * LONGEST_LINE) + b"\nb\n")
    followed, told = Follower(path), []
    while (look := followed.look()).behind:
        told += look.lines
        assert sum(len(each.text or b"") for each in told) < 10
    assert [(each.number, each.text) for each in (*told, *look.lines)] == [
        (1, b"a"),
        (2, None),
        (3, b"b"),
    ]


def test_what_is_no_file_is_not_waited_for(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    assert Follower(path).look().obstacle == "it is no file"
    assert Follower(tmp_path).look().obstacle == "it is no file"
    assert "null" in Follower(Path("a\0b")).look().obstacle
    assert Follower(path / "x").look().obstacle == "it is not there yet"
    assert "too long" in Follower(tmp_path / ("n" * 300)).look().obstacle
