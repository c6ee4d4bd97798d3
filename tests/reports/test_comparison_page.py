"""The page of a comparison: every device is there, and joules are called what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ampere.profiles.collection.comparison import Comparison, compare_devices
from ampere.profiles.library import open_library
from ampere.reports.comparison_page import report_comparison
from ampere.reports.ranking import ORIGINS, Place, ranking
from fakes import plain_model
from libraries import a_fleet, a_profile
from reported import HOSTILE
from reports.page_reader import Reader


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = a_fleet(tmp_path_factory.mktemp("home") / "fleet")
    return compare_devices(open_library(folder), plain_model(90, 20), name="mine.py:net")


def test_every_section_is_there(comparison: Comparison) -> None:
    read = Reader(report_comparison(comparison).html())
    assert read.open == []
    assert read.within("h1") == ["mine.py:net by 3 profiles"]
    assert read.within("h2") == [
        *("Read with care", "Joules", "Seconds", "Side by side", "Left out", "The profiles"),
    ]


def test_joules_are_called_what_they_are(comparison: Comparison) -> None:
    page = report_comparison(comparison)
    joules, seconds = page.figures
    for origin in ("measured", "modelled", "simulated"):
        assert f">{origin}</text>" in joules.svg
        assert f'class="sort{ORIGINS.index(origin)}"' in joules.svg
    assert "recorded" not in joules.svg
    assert joules.svg.count("extrapolated · ") == seconds.svg.count("extrapolated · ") == 3
    html = page.html()
    assert "measured (counter)" in html
    assert "joules are not of one kind" in html


def test_a_hostile_library_is_shown_and_nothing_runs(tmp_path: Path) -> None:
    a_profile({"device": f"pi{HOSTILE}"}, meter=HOSTILE, made_for=HOSTILE).save(
        tmp_path / "<b>\x1b.ampere"
    )
    (tmp_path / "<i>.ampere").write_text("")
    found = compare_devices(open_library(tmp_path), plain_model(8), name=HOSTILE)
    read = Reader(report_comparison(found).html())
    assert read.open == []
    assert {tag for tag, _ in read.tags} & {"img", "b", "i"} <= {"b"}
    assert len([tag for tag, _ in read.tags if tag == "script"]) == 1
    assert "\x1b" not in report_comparison(found).html()


def test_unknown_seconds_are_left_out(tmp_path: Path) -> None:
    profile = a_profile({"device": "pi"})
    rows = [replace(row, time_s_per_step=None) for row in profile.measurements]
    replace(profile, measurements=tuple(rows)).save(tmp_path / "a.ampere")
    found = compare_devices(open_library(tmp_path), plain_model(8))
    read = Reader(report_comparison(found).html())
    assert "Seconds" not in read.within("h2")
    assert "unknown" in report_comparison(found).html()


def test_an_interval_over_decades_leaves_the_chart() -> None:
    places = [
        Place("known", 1.0, (0.9, 1.1), "1 J", "", "measured"),
        Place("guessed", 2.0, (0.01, 400.0), "2 J", "", "simulated"),
    ]
    svg = ranking(places, title="joules", description="of two")
    assert 'width="238.7"' in svg  # 2 of 3 J, which is the most that is drawn
    assert svg.count("whisker") == 2 * 3 - 1
