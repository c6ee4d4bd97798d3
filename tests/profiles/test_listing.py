"""Listing: all profiles of a library, or one, as they are printed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ampere.profiles.collection.cards import Card
from ampere.profiles.collection.listing import (
    list_profiles,
    listing_json,
    profile_json,
    show_profile,
)
from ampere.profiles.leave_one_out import Validation
from ampere.profiles.library import open_library
from golden_files import agreed
from libraries import a_fleet, a_profile


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return a_fleet(Path("fleet"))


def test_what_is_printed(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joules = np.array([1.0, 2.0, 3.0, 4.0])
    error = Validation("network", 1.03 * joules, 0.1 * joules, joules)
    monkeypatch.setattr(Card, "own_error", lambda card, most_rows=None: error)
    shutil.copy(fleet / "tx2.ampere", fleet / "copy.ampere")
    library = open_library(fleet)
    listed, shown = list_profiles(library).text(), show_profile(library.find("laptop")).text()
    assert listed == agreed("devices_list.txt", listed)
    assert shown == agreed("devices_show.txt", shown)


def test_names_cannot_steer_a_terminal(tmp_path: Path) -> None:
    a_profile({"device": "\x1b[31mpi"}, made_for="\x1b]0;x\x07").save(tmp_path / "a\x1b[2J.ampere")
    (tmp_path / "b\x07.ampere").write_text("")
    library = open_library(tmp_path)
    entry = library.entries[0]
    for text in (list_profiles(library).text(), show_profile(entry).text()):
        assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_json_is_plain_data(fleet: Path) -> None:
    library = open_library(fleet)
    row = json.loads(json.dumps(listing_json(library)))
    assert [each["name"] for each in row["profiles"]] == ["box", "laptop", "tx2"]
    assert [each["metered"] for each in row["profiles"]] == ["modelled", "measured", "simulated"]
    assert row["profiles"][0]["leave_one_out"]["count"] == 13
    assert [each["name"] for each in row["unusable"]] == ["broken"]
    one = json.loads(json.dumps(profile_json(library.find("box"))))
    assert one["settings"]["threads"] == "1"
    assert [each["operation"] for each in one["kinds"]] == ["linear"] * 3
