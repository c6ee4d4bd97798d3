"""Files: whole or not at all when written, and only up to a limit when read."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.files import read_text, read_whole, unpack, write_whole, writing_beside
from ampere.errors import DataError


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_all_members_are_unpacked(parts: list[bytes]) -> None:
    packed = b"".join(map(gzip.compress, parts))
    assert unpack(packed) == gzip.decompress(packed) == b"".join(parts)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(10**6)) * 300
    assert len(bomb) < 400_000
    with pytest.raises(DataError, match="unpacks to more than 1000000 bytes"):
        unpack(bomb, 10**6)
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(2 * 10**6)))
    with pytest.raises(DataError, match="more than"):
        read_whole(tmp_path / "bomb", 10**6)


@pytest.mark.parametrize("cut", [3, 12, -9, -1])
def test_what_is_cut_off_is_told(cut: int) -> None:
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(gzip.compress(b"hello" * 100)[:cut])


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_whole(tmp_path / "a", 5) == b"12345"
    with pytest.raises(DataError, match="larger than 4 bytes"):
        read_whole(tmp_path / "a", 4)
    with pytest.raises(DataError, match="larger than"):
        read_whole("/dev/zero", 10**6)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\xff", "not UTF-8"), (b"a" * 11, "larger than 10 bytes"), (b"\x1f\x8bx", "unpacked")],
)
def test_text_that_cannot_be_read_is_told_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "rows"
    path.write_bytes(data)
    with pytest.raises(DataError, match=said) as caught:
        read_text(path, 10)
    assert str(path) in str(caught.value)


def test_standard_input_may_be_closed_or_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello")))
    assert read_text("-") == ("standard input", "hello")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello")))
    with pytest.raises(DataError, match="standard input cannot be read: it is larger"):
        read_text("-", 4)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input cannot be read: it is closed"):
        read_text("-")


def test_a_file_is_replaced_with_its_permissions_and_through_links(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    write_whole(path, "one")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, b"two")
    assert (path.read_text(), link.is_symlink()) == ("two", True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "one", new=True)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "a", "two", new=True)
    assert (tmp_path / "a").read_text() == "one"
    assert os.listdir(tmp_path) == ["a"]


def test_without_hard_links_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    test_a_new_file_never_replaces_one(tmp_path)


@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write_whole(tmp_path / "a", "one")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    if call == "link":
        monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / ("b" if call == "link" else "a"), "two", new=call == "link")
    assert (tmp_path / "a").read_text() == "one"
    assert os.listdir(tmp_path) == ["a"]


def test_whoever_fails_while_writing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), writing_beside(tmp_path / "a") as part:
        part.write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_whole("/dev/null", "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_long_name_needs_no_longer_one_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), "all of it")
    assert (tmp_path / ("n" * 255)).read_text() == "all of it"
