"""Library: a folder of profiles, whatever else lies there, and whatever is wrong with some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ampere
from ampere.errors import DataError
from ampere.profiles import library
from ampere.profiles.library import open_library
from fakes import exact, plain_model


def make_profile(path: Path, device: str = "pi", widths: tuple[int, ...] = (1, 8, 16, 32)) -> Path:
    """The file of a profile of plain layers."""
    ampere.fit([exact(plain_model(width)) for width in widths], device=device).save(path)
    return path


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    folder.mkdir()
    make_profile(folder / "pi.ampere")
    make_profile(folder / "jetson.ampere", "jetson")
    (folder / "README.md").write_text("ours")
    return folder


def test_profiles_stand_in_the_order_of_their_names(fleet: Path) -> None:
    found = open_library(fleet)
    assert [entry.name for entry in found.entries] == ["jetson", "pi"]
    assert [entry.profile.device for entry in found.entries] == ["jetson", "pi"]
    assert found.unusable == ()


def test_what_cannot_be_used_does_not_keep_others_from_being_read(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = (fleet / "pi.ampere").read_text().splitlines()[0]
    (fleet / "empty.ampere").write_text("")
    (fleet / "failed.ampere").write_text(header + "\n")
    (fleet / "folder.ampere").mkdir()
    (fleet / "huge.ampere").write_bytes(b"{}\n" * 100_000)
    (fleet / "out.ampere").symlink_to(make_profile(tmp_path / "elsewhere.ampere"))
    (fleet / "gone.ampere").symlink_to(fleet / "nothing")
    (fleet / "text.ampere").write_text("hello\n")
    os.mkfifo(fleet / "waits.ampere")
    monkeypatch.setattr(library, "MOST_BYTES", 200_000)
    found = open_library(fleet)
    assert [entry.name for entry in found.entries] == ["jetson", "pi"]
    reasons = {file.name: file.reason for file in found.unusable}
    assert reasons == {
        "empty": "is empty: delete it or restore it from a copy",
        "failed": "it has no row to learn from: every one failed, or there are none",
        "folder": "it is no file",
        "gone": "it cannot be read: No such file or directory",
        "huge": "it is larger than 200000 bytes",
        "out": "it is a link that leads out of the folder: put the file itself there",
        "text": "line 1: not JSON (Expecting value: line 1 column 1 (char 0)); nothing was read",
        "waits": "it is no file",
    }
    with pytest.raises(DataError, match=r"out\.ampere cannot be used: it is a link"):
        found.find("out")


@pytest.mark.parametrize("name", ["pi", "pi.ampere"])
def test_a_profile_is_found_by_its_name(fleet: Path, name: str) -> None:
    assert open_library(fleet).find(name).path == fleet / "pi.ampere"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("jetsn", "did you mean jetson?"),
        ("JETSON", "did you mean jetson?"),
        ("laptop", "it has jetson, pi"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_those_that_are(
    fleet: Path, name: str, says: str
) -> None:
    with pytest.raises(DataError) as caught:
        open_library(fleet).find(name)
    assert str(caught.value) == f"{fleet} has no profile {name!r}: {says}"


def test_folders_that_are_none(fleet: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist: name a folder of profiles"):
        open_library(tmp_path / "none")
    with pytest.raises(DataError, match="is no folder: name the one that the profile lies in"):
        open_library(fleet / "pi.ampere")
    with pytest.raises(DataError, match="no folder can have such a name"):
        open_library("a\0b")
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError, match=r"has no profile \(\*\.ampere\): `ampere devices add`"):
        open_library(tmp_path / "bare")
    with pytest.raises(DataError, match=f"there are some in {fleet}"):
        open_library(tmp_path)
