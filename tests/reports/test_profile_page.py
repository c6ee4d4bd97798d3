"""Reports: every section is there, everything is escaped, and joules are called what they are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ampere.core.layers import Role
from ampere.errors import DataError, NotCovered
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile, fit
from ampere.reports.html import Report
from ampere.reports.profile_page import report
from fakes import exact, plain_kind, plain_layer, plain_model
from reported import HOSTILE, made_up
from reports.page_reader import Reader, table_of

SECTIONS = [
    "Read with care",
    "The profile",
    "What was profiled, in which order",
    "Where the joules go",
    "Layers at other widths",
    "Estimated against simulated",
    "All rows",
]


@pytest.fixture(scope="module")
def page() -> Report:
    return report(made_up())


@pytest.fixture(scope="module")
def read(page: Report) -> Reader:
    return Reader(page.html())


def test_every_section_is_there_and_linked(page: Report, read: Reader) -> None:
    assert read.open == []
    assert read.within("h2") == SECTIONS
    assert read.within("h1") == ["Energy profile of mine.py:Net"]
    ids = {attributes["id"] for tag, attributes in read.tags if tag == "section"}
    links = {attributes["href"] for tag, attributes in read.tags if tag == "a"}
    assert links == {f"#{each}" for each in ids}


def test_what_the_profile_is(read: Reader) -> None:
    for text in ("pi", "fake", "joules are simulated", "2026-01-02 03:04:05 UTC", "a note",
                 "1.50 W", "10 networks, 17 variants, 3 single stages, 1 failure",
                 "a limit ended it early", "failed: out of memory"):  # fmt: skip
        assert text.lower() in read.text.lower(), text


def test_every_chart_is_well_formed(page: Report) -> None:
    assert len(page.figures) == 6
    for figure in page.figures:
        root = ElementTree.fromstring(figure.svg)
        assert root.get("role") == "img"
        assert not re.search(r"[\s\"](nan|inf|-inf)[\s\",]", figure.svg)


@pytest.mark.parametrize("method", ["additive", "paper"])
def test_hostile_names_stay_texts(method: str, page: Report) -> None:
    hostile = report(made_up(suffix=HOSTILE, method=method))
    html = hostile.html()
    seen = Reader(html)
    assert seen.open == []
    expected = {tag for tag, _ in Reader(page.html()).tags}
    assert {tag for tag, _ in seen.tags} <= expected
    assert sum(tag == "script" for tag, _ in seen.tags) == 1
    assert not [name for _, each in seen.tags for name in each if name.startswith("on")]
    assert "alert(1)" in seen.text and "alert" not in "".join(seen.within("script"))
    assert "\x1b" not in html and "\u202e" not in html and "\x00" not in html
    for figure in hostile.figures:
        ElementTree.fromstring(figure.svg)


@pytest.mark.parametrize(
    "provenance", [Provenance.COUNTER, Provenance.MODELLED, Provenance.SIMULATED]
)
def test_only_hardware_measures(provenance: Provenance) -> None:
    page = report(made_up(provenance, whole=4))
    text = Reader(page.html()).text
    if provenance.metered == "measured":
        assert f"Estimated against {provenance.metered}" in text
    else:
        rest = re.sub(r"not measured( now)?", "", text)
        assert "measured" not in rest
        assert f"Estimated against {provenance.metered}" in text


def test_leaving_one_out_is_called_that(read: Reader) -> None:
    assert "Leave one out: each network of this profile, estimated from all others" in read.text
    assert "This is no test on fresh models" in read.text
    assert re.search(r"\(MAPE\) \d+\.\d %.*\d+ of 27 lie inside their 90 % interval", read.text)


def test_all_rows_are_in_the_table_of(page: Report) -> None:
    profile = made_up()
    rows = table_of(page, "All rows").rows
    assert len(rows) == len(profile.measurements)
    assert rows[-1][-1] == "failed: out of memory"
    assert rows[-2][2].endswith("update alone")


def test_a_row_that_is_left_out_says_why() -> None:
    profile = made_up()
    first, *others = profile.measurements
    wrapped = replace(first, energy_j_per_step=first.energy_j_per_step / 500)
    page = report(replace(profile, measurements=(wrapped, *others)))
    assert re.match(r"left out: it is 0\.00\d+ × what", table_of(page, "All rows").rows[0][-1])


def test_plain_rows_make_a_report_too() -> None:
    page = report(fit([exact(plain_model(8, 8)), exact(plain_model(4, 4))], device="pi"))
    text = Reader(page.html()).text
    assert "Energy profile" in text and "they were told without it" in text
    assert "Too few rows" in text
    assert "No kind of layer was profiled at enough widths" in text or "over" in text


def test_a_given_model_is_shown(page: Report) -> None:
    shown = report(made_up(), plain_model(5, 6, 7))
    names = [row[0] for row in table_of(shown, "Where the joules go").rows]
    assert "hidden linear in=5 out=6" in names
    stranger = plain_layer(plain_kind(Role.HIDDEN, "magic"), in_=3, out=3)
    with pytest.raises(NotCovered, match="the given model: the profile covers none"):
        report(made_up(method="paper"), [stranger])


def test_code_that_a_profile_names_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("open('ran', 'w')")
    report(made_up(whole=4))
    assert not Path("ran").exists()


def test_a_model_of_the_zoo_is_read() -> None:
    pytest.importorskip("torch")
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    page = report(Profile.load(results / "additive_lenet5_seed2.ampere.gz"))
    names = [row[0] for row in table_of(page, "Where the joules go").rows]
    assert names[0].startswith("conv1") and names[-1] == "the step itself"
    assert "zoo:lenet5" in page.highlights[0][1]


def test_a_zoo_that_does_not_know_the_model_is_no_obstacle() -> None:
    profile = made_up(whole=4)
    page = report(replace(profile, header=replace(profile.header, model="zoo:atlantis")))
    assert "the largest profiled network" in page.highlights[0][1]


def test_nothing_usable_is_an_error() -> None:
    profile = made_up()
    failed = tuple(row for row in profile.measurements if row.failed or row.stage != "step")
    for rows in ((), failed):
        with pytest.raises(DataError, match="nothing to report"):
            report(replace(profile, measurements=rows))
