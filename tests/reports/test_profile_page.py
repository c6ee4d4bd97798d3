"""Reports: every section is there, everything is escaped, and joules are called what they are."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ampere.core.layers import Role
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import usable
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile, fit
from ampere.reports.html import Chooser, Report, Table, Toggles
from ampere.reports.labels import short_names
from ampere.reports.profile_page import report
from ampere.reports.svg import NAMESPACE
from fakes import LAST, exact, plain_kind, plain_layer, plain_model
from reported import HOSTILE, SHARES, made_up

VOID = {"meta", "input", "br"}
SECTIONS = [
    "Read with care",
    "The profile",
    "What was profiled, in which order",
    "Where the joules go",
    "Layers at other widths",
    "Estimated against simulated",
    "All rows",
]


class Reader(HTMLParser):
    """What a browser makes of a page: its tags, each closed, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def within(self, tag: str) -> list[str]:
        return [text for home, text in self.texts if home == tag]

    @property
    def text(self) -> str:
        return " ".join(text for home, text in self.texts if home not in ("style", "script"))


@pytest.fixture(scope="module")
def page() -> Report:
    return report(made_up())


@pytest.fixture(scope="module")
def read(page: Report) -> Reader:
    return Reader(page.html())


def table(page: Report, section: str, number: int = 0) -> Table:
    (found,) = [each for each in page.sections if each.title == section]
    return [part for part in found.parts if isinstance(part, Table)][number]


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


def test_nothing_outside_is_asked_for(page: Report, read: Reader) -> None:
    html = page.html()
    assert set(re.findall(r"https?:[^\"' <>)]*", html)) == {NAMESPACE}
    assert not re.search(r"@import|url\(|\bsrc=|fetch\(|XMLHttp|import\(", html)
    assert {"link", "img", "iframe", "object", "form"}.isdisjoint(tag for tag, _ in read.tags)
    assert not [each for _, each in read.tags if "style" in each]  # our own policy forbids it


def test_only_our_script_may_run(read: Reader) -> None:
    from base64 import b64encode
    from hashlib import sha256

    (policy,) = [
        str(each["content"]) for tag, each in read.tags if tag == "meta" and "http-equiv" in each
    ]
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        digest = b64encode(sha256("".join(read.within(tag)).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


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


@pytest.mark.parametrize("provenance", Provenance)
def test_only_hardware_measures(provenance: Provenance) -> None:
    page = report(made_up(provenance, whole=4))
    text = Reader(page.html()).text
    if provenance.metered == "measured":
        assert f"Estimated against {provenance.metered}" in text
    else:
        rest = re.sub(r"not measured( now)?", "", text)
        assert "measured" not in rest
        assert f"Estimated against {provenance.metered}" in text


def test_bars_add_up_and_can_be_toggled(page: Report) -> None:
    (toggles,) = [p for section in page.sections for p in section.parts if isinstance(p, Toggles)]
    root = ElementTree.fromstring(toggles.figure.svg)
    rows = [each for each in root.iter() if each.get("class") == "row"]
    largest = max(usable(made_up().measurements), key=lambda row: row.energy_j_per_step)
    said = made_up().estimate(largest.layers)
    assert sum(float(row.get("data-j", "")) for row in rows) == pytest.approx(said.energy_j)
    assert {row.get("data-group") for row in rows} == {str(n) for n in range(len(toggles.groups))}
    assert toggles.groups[-1] == "the step itself"
    shares = [row[3] for row in table(page, "Where the joules go").rows]
    assert sum(float(share.strip("<").split()[0]) for share in shares) == pytest.approx(
        100, abs=0.5
    )


def test_stages_are_shares_of_what_was_run_alone(page: Report) -> None:
    rows = table(page, "Where the joules go", 1).rows
    assert rows == [("hidden linear", *(f"{100 * share:.0f}" for share in SHARES.values()))]


def test_widths_are_chosen_among(page: Report) -> None:
    (chooser,) = [p for section in page.sections for p in section.parts if isinstance(p, Chooser)]
    assert [figure.label for figure in chooser.figures].count("hidden") == 1
    assert sum('class="chart surface"' in figure.svg for figure in chooser.figures) == 1
    assert all("inferred" in figure.caption for figure in chooser.figures)


def test_leaving_one_out_is_called_that(read: Reader) -> None:
    assert "Leave one out: each network of this profile, estimated from all others" in read.text
    assert "This is no test on fresh models" in read.text
    assert re.search(r"\(MAPE\) \d+\.\d %.*\d+ of 27 lie inside their 90 % interval", read.text)


def test_all_rows_are_in_the_table(page: Report) -> None:
    profile = made_up()
    rows = table(page, "All rows").rows
    assert len(rows) == len(profile.measurements)
    assert rows[-1][-1] == "failed: out of memory"
    assert rows[-2][2].endswith("update alone")


def test_a_row_that_is_left_out_says_why() -> None:
    profile = made_up()
    first, *others = profile.measurements
    wrapped = replace(first, energy_j_per_step=first.energy_j_per_step / 500)
    page = report(replace(profile, measurements=(wrapped, *others)))
    assert re.match(r"left out: it is 0\.00\d+ × what", table(page, "All rows").rows[0][-1])


def test_plain_rows_make_a_report_too() -> None:
    page = report(fit([exact(plain_model(8, 8)), exact(plain_model(4, 4))], device="pi"))
    text = Reader(page.html()).text
    assert "Energy profile" in text and "they were told without it" in text
    assert "Too few rows" in text
    assert "No kind of layer was profiled at enough widths" in text or "over" in text


def test_a_given_model_is_shown(page: Report) -> None:
    shown = report(made_up(), plain_model(5, 6, 7))
    names = [row[0] for row in table(shown, "Where the joules go").rows]
    assert "hidden linear in=5 out=6" in names
    stranger = plain_layer(plain_kind(Role.HIDDEN, "magic"), in_=3, out=3)
    with pytest.raises(NotCovered, match="no layer of the given model"):
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
    names = [row[0] for row in table(page, "Where the joules go").rows]
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


def test_a_page_is_written_once(page: Report, tmp_path: Path) -> None:
    page.save(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == page.html()
    with pytest.raises(DataError, match=r"a\.html exists"):
        page.save(tmp_path / "a.html")
    with pytest.raises(DataError, match="cannot write"):
        page.save(tmp_path / "none" / "a.html")


def test_charts_are_written_as_files(page: Report, tmp_path: Path) -> None:
    paths = page.save_figures(tmp_path / "figures")
    names = ["order.svg", "order.png", "layers.svg", "layers.png"]
    assert [path.name for path in paths][:4] == names
    assert len(set(paths)) == 2 * len(page.figures)
    for path in paths[1::2]:
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
    for path in paths[::2]:  # whoever meets one of them alone sees what its joules are
        root = ElementTree.parse(path).getroot()
        letters = " ".join(each.text or "" for each in root.iter(f"{{{NAMESPACE}}}text"))
        assert "simulated, not measured" in letters
    with pytest.raises(DataError, match="exists"):
        page.save_figures(tmp_path / "figures")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot make"):
        page.save_figures(tmp_path / "file" / "figures")


def test_without_what_draws_them_charts_are_svg_alone(
    page: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    assert {path.suffix for path in page.save_figures(tmp_path)} == {".svg"}


def test_hostile_names_of_figures_stay_in_their_folder(tmp_path: Path) -> None:
    page = report(made_up(suffix="/../../x", whole=4))
    paths = page.save_figures(tmp_path / "figures")
    assert {path.parent for path in paths} == {tmp_path / "figures"}


def test_names_lose_what_all_share() -> None:
    assert short_names(["a x b10 #1", "a y b10 #2"]) == {"a x b10 #1": "x", "a y b10 #2": "y"}
    assert short_names(["a b10 #1", "a b10 #2"]) == {"a b10 #1": "#1", "a b10 #2": "#2"}
    assert short_names(["a", "a a"]) == {"a": "a", "a a": "a a"}
    assert short_names(["a #1"]) == {"a #1": "a"}
    assert short_names([]) == {}
    assert LAST.name == "last linear"
