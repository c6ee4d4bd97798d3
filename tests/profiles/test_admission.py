"""Admission: a profile joins whole, once, under a name that can be; else nothing changes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary import files
from ampere.errors import AmpereError, ContradictoryRows, DataError, JournalError
from ampere.profiles.collection.admission import _checked_name, add_profile
from ampere.profiles.library import Library, open_library
from ampere.profiles.profile import Profile
from libraries import MODELS, a_fleet, a_profile


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    return a_fleet(tmp_path / "fleet")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    a_profile({"device": "pi"}).save(tmp_path / "pi.ampere")
    return tmp_path / "pi.ampere"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(fleet: Path, file: Path, name: str | None = None) -> str:
    """Why a file may not join; nothing has changed then."""
    before = content(fleet)
    with pytest.raises(AmpereError) as caught:
        add_profile(fleet, file, name)
    assert content(fleet) == before
    assert isinstance(caught.value, (DataError, JournalError))
    return str(caught.value)


def test_a_profile_joins_as_it_is(fleet: Path, new: Path) -> None:
    entry = add_profile(fleet, new)
    assert (entry.name, entry.path) == ("pi", fleet / "pi.ampere")
    assert entry.path.read_bytes() == new.read_bytes()
    assert open_library(fleet).find("pi").profile == entry.profile
    assert [path.name for path in fleet.iterdir() if files.is_part(path)] == []


def test_one_that_is_packed_is_unpacked(fleet: Path, new: Path, tmp_path: Path) -> None:
    packed = tmp_path / "far.ampere.gz"
    packed.write_bytes(gzip.compress(new.read_bytes()))
    assert add_profile(fleet, packed).path.read_bytes() == new.read_bytes()
    assert (fleet / "far.ampere").exists()


def test_a_git_repository_is_a_folder(fleet: Path, new: Path) -> None:
    (fleet / ".git").mkdir()
    (fleet / ".git" / "odd.ampere").write_text("")
    add_profile(fleet, new, "pi-4")
    names = [entry.name for entry in open_library(fleet).entries]
    assert names == ["box", "laptop", "pi-4", "tx2"]


def test_what_is_there_already_is_refused_under_any_name(
    fleet: Path, new: Path, tmp_path: Path
) -> None:
    add_profile(fleet, new)
    says = f"{fleet / 'pi.ampere'} has all rows of {new} already: nothing is to be added"
    assert refused(fleet, new, "other") == says
    earlier = tmp_path / "earlier.ampere"
    a_profile({"device": "pi"}, models=MODELS[:8]).save(earlier)
    assert "has all rows of" in refused(fleet, earlier)
    a_profile({"device": "pi 5"}).save(tmp_path / "other.ampere")  # the same rows, not the device
    assert add_profile(fleet, tmp_path / "other.ampere").name == "other"


@pytest.mark.parametrize("name", ["laptop", "LAPTOP", "laptop.ampere", "broken"])
def test_nothing_is_overwritten(fleet: Path, new: Path, name: str) -> None:
    assert "exists: choose another name with --name" in refused(fleet, new, name)


@pytest.mark.parametrize(
    "name",
    ["", ".hidden", "../out", "a/b", "a\\b", "a b", "-x", "a\n", "a\x1b", "CON", "nul.x", "a.",
     "n" * 61, "a:b", "\udcff"],
)  # fmt: skip
def test_names_that_cannot_be_are_refused(fleet: Path, new: Path, name: str) -> None:
    assert "is no name for a profile: give --name" in refused(fleet, new, name)


@given(st.text(max_size=80))
def test_whatever_name_is_taken_stays_in_the_folder(name: str) -> None:
    try:
        called = _checked_name(Library(Path("fleet")), name)
    except DataError:
        return
    assert os.path.basename(called) == called
    assert not called.startswith((".", "-"))
    assert called.isprintable()
    assert len(f"{called}.ampere".encode()) <= 255


def test_files_that_cannot_be_used(
    fleet: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = new.read_text()
    header = text.splitlines()[0]
    odd = tmp_path / "odd.ampere"
    assert refused(fleet, tmp_path / "none.ampere").endswith("does not exist: check the path")
    assert "is a directory" in refused(fleet, tmp_path, "folder")
    odd.write_text(header + "\n")
    assert refused(fleet, odd) == (
        f"{odd}: it has no row to learn from: every one failed, or there are none"
    )
    odd.write_text(text[:-40])
    assert "is torn: wait until nothing writes to it" in refused(fleet, odd)
    odd.write_text(text.replace("energy_j_per_step", "joules", 1))
    assert "line 2 is damaged" in refused(fleet, odd)
    odd.write_text("hello\n")
    assert "not JSON" in refused(fleet, odd)
    odd.write_bytes(gzip.compress(bytes(40 * 2**20)))
    assert "unpacks to more than" in refused(fleet, odd)

    def contradict(self: Profile) -> None:
        raise ContradictoryRows("rows contradict each other")

    monkeypatch.setattr(Profile, "fit", property(contradict))
    assert "cannot be fitted: rows contradict each other" in refused(fleet, new)


def test_a_folder_must_be_there(new: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        add_profile(tmp_path / "none", new)
    (tmp_path / "empty").mkdir()
    assert add_profile(tmp_path / "empty", new).name == "pi"


def test_a_full_disk_leaves_nothing(
    fleet: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert refused(fleet, new).endswith("cannot be written: No space left on device")
