"""Known repeats: what the last check found is there again, and a damaged file does no harm."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.fingerprint import Fingerprint
from ampere.evaluation.known_repeats import MOST_DEVICES, keep_repeats, known_repeats
from ampere.records.repeats import Repeats

HERE = Fingerprint({"processor": "Fast 9000"})
FOUND = Repeats(0.012, 0.034, 9, 61.5, "2026-11-17T09:00:00+00:00")


def device(number: int) -> Fingerprint:
    return Fingerprint({"number": str(number)})


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they are kept; nothing is there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ampere" / "repeats.json"


def test_what_was_kept_is_known(path: Path) -> None:
    assert known_repeats(HERE) is None
    keep_repeats(HERE, FOUND)
    assert known_repeats(HERE) == FOUND
    assert path.is_file()
    assert known_repeats(HERE) == FOUND


def test_the_last_check_counts(path: Path) -> None:
    keep_repeats(HERE, FOUND)
    later = Repeats(0.1, 0.2, 3, 60.0, "2026-11-18T09:00:00+00:00")
    keep_repeats(HERE, later)
    assert known_repeats(HERE) == later
    assert len(json.loads(path.read_text())) == 1


def test_each_device_has_its_own(path: Path) -> None:
    others = [Repeats(0.01, 0.01 * (i + 1), 2, 60.0, "then") for i in range(3)]
    for i, found in enumerate(others):
        keep_repeats(device(i), found)
    assert [known_repeats(device(i)) for i in range(3)] == others
    assert known_repeats(device(3)) is None
    assert known_repeats(HERE) is None


def test_the_same_device_in_other_conditions_is_the_same(path: Path) -> None:
    keep_repeats(HERE, FOUND)
    warm = Fingerprint(HERE.identity, {"temperature_c": "80", "host": "elsewhere"})
    assert known_repeats(warm) == FOUND
    assert known_repeats(Fingerprint({**HERE.identity, "threads": "2"})) is None


def test_the_one_that_was_checked_first_goes_first(path: Path) -> None:
    for i in range(MOST_DEVICES):
        keep_repeats(device(i), FOUND)
    keep_repeats(device(0), FOUND)  # again: now the second is the oldest
    keep_repeats(HERE, FOUND)
    assert len(json.loads(path.read_text())) == MOST_DEVICES == 100
    assert known_repeats(device(0)) == known_repeats(HERE) == FOUND
    assert known_repeats(device(1)) is None
    assert known_repeats(device(2)) == FOUND


def test_a_check_that_found_nothing_of_sittings_is_not_known(path: Path) -> None:
    keep_repeats(HERE, Repeats(0.01))
    assert known_repeats(HERE) is None
    assert path.is_file()


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"5",
    b"null",
    b'"text"',
    b"\xff\xfe\x00",
    b"\x1f\x8b damaged",
    b'{"a": NaN}',
    b"[" * 100_000,
    b" " * 2_000_000,
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_passed_over_and_written_anew(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert known_repeats(HERE) is None
    keep_repeats(HERE, FOUND)
    assert known_repeats(HERE) == FOUND


FINE = {"within": 0.01, "between": 0.02, "degrees": 3, "apart_s": 60.0, "when": "then"}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        5,
        [],
        "text",
        {},
        *({key: value for key, value in FINE.items() if key != name} for name in FINE),
        {**FINE, "within": -0.1},
        {**FINE, "within": "0.1"},
        {**FINE, "between": None},
        {**FINE, "between": 1e9},
        {**FINE, "between": True},
        {**FINE, "degrees": 0},
        {**FINE, "degrees": 1.5},
        {**FINE, "degrees": 10**12},
        {**FINE, "apart_s": -1.0},
        {**FINE, "when": 5},
        {**FINE, "when": "x" * 101},
    ],
)
def test_a_damaged_entry_is_unknown_and_harms_no_other(path: Path, entry: object) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({HERE.id: entry, device(1).id: FINE}))
    assert known_repeats(HERE) is None
    assert known_repeats(device(1)) == Repeats(0.01, 0.02, 3, 60.0, "then")
    keep_repeats(HERE, FOUND)
    assert known_repeats(HERE) == FOUND
    assert known_repeats(device(1)) is not None


@given(st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
))  # fmt: skip
def test_whatever_an_entry_says_nothing_fails(
    tmp_path_factory: pytest.TempPathFactory, entry: object
) -> None:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        file = home / "ampere" / "repeats.json"
        file.parent.mkdir()
        file.write_text(json.dumps({HERE.id: entry, "odd": entry}))
        found = known_repeats(HERE)
        assert found is None or found.error > 0
        keep_repeats(HERE, FOUND)
        assert known_repeats(HERE) == FOUND


def test_a_folder_that_cannot_be_written_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_repeats(HERE, FOUND)

    def forbidden(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:  # root may write anywhere
        patch.setattr(os, "open", forbidden)
        keep_repeats(device(1), FOUND)
    assert known_repeats(HERE) == FOUND
    assert known_repeats(device(1)) is None


def test_a_folder_that_cannot_be_made_is_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object, **settings: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", forbidden)
        keep_repeats(HERE, FOUND)
    assert known_repeats(HERE) is None
    assert not path.parent.exists()


def test_a_file_where_the_folder_should_be_is_left_alone(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("somebody's")
    keep_repeats(HERE, FOUND)
    assert known_repeats(HERE) is None
    assert path.parent.read_text() == "somebody's"


def test_a_folder_where_the_file_should_be_is_left_alone(path: Path) -> None:
    path.mkdir(parents=True)
    assert known_repeats(HERE) is None
    keep_repeats(HERE, FOUND)
    assert path.is_dir()
    assert known_repeats(HERE) is None


def test_a_full_disk_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_repeats(HERE, FOUND)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    keep_repeats(device(1), FOUND)
    assert known_repeats(HERE) == FOUND
    assert known_repeats(device(1)) is None
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_without_a_cache_of_its_own_it_is_that_of_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_repeats(HERE, FOUND)
    assert (tmp_path / ".cache" / "ampere" / "repeats.json").is_file()
    assert known_repeats(HERE) == FOUND
