"""The file of a page: it asks for nothing, runs nothing of others, and is never written over."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ampere import __version__
from ampere.errors import DataError
from ampere.reports.html import Report
from ampere.reports.parts import (
    Chooser,
    Facts,
    Figure,
    Gauge,
    Line,
    Part,
    Picture,
    Plot,
    Quote,
    Section,
    Table,
    Text,
    Toggles,
)
from ampere.reports.profile_page import report
from ampere.reports.svg import NAMESPACE, chart
from golden_files import agreed
from reported import HOSTILE, made_up
from reports.page_reader import Reader


@pytest.fixture(scope="module")
def page() -> Report:
    return report(made_up())


@pytest.fixture(scope="module")
def read(page: Report) -> Reader:
    return Reader(page.html())


def every_part(name: str) -> tuple[Part, ...]:
    figure = Figure(name, chart(10, name, name), name)
    return (
        Text(f"{name} `code` {name}"),
        Text(name, warning=True),
        Quote(name),
        Facts([(name, name)]),
        Table((name, "n"), [(name, "1"), ("x" * 40, "2")], "<>"),
        figure,
        Picture(b"<svg/>", name),
        Chooser((figure, figure)),
        Toggles(figure, [name, name], total=name, unit="mJ", unit_j=1e-3),
        Gauge(figure.svg, [("spent", name, name)], name),
        Plot("spent", "Wh", [Line(name, "spent", [0.0, 1.0], [None, 0.123456789])], name),
    )


def a_report(name: str) -> Report:
    sections = (Section(name, every_part(name)), Section(name, (), half=True))
    return Report(title=name, lead=name, highlights=((name, name),), sections=sections)


def test_every_part_is_shown_as_agreed_on() -> None:
    html = re.sub(r"(?s)(<style>|<script>).*?(</)", r"\1\2", a_report("a & b").html())
    shown = re.sub(r"sha256-[\w+/=]+", "sha256-", html).replace(__version__, "VERSION")
    assert shown == agreed("report.html", shown)


def test_hostile_texts_stay_texts_in_every_part() -> None:
    html = a_report(HOSTILE).html()
    hostile, harmless = Reader(html), Reader(a_report("name").html())
    assert hostile.open == []
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in harmless.tags]
    assert [sorted(each) for _, each in hostile.tags] == [sorted(each) for _, each in harmless.tags]
    assert hostile.text.count("alert(1)") == harmless.text.count("name")
    assert "\x1b" not in html and "\u202e" not in html and "\x00" not in html


def test_a_page_is_its_figures_in_their_order() -> None:
    assert len(a_report("x").figures) == 4


def test_nothing_outside_is_asked_for(page: Report, read: Reader) -> None:
    html = page.html()
    assert set(re.findall(r"https?:[^\"' <>)]*", html)) == {NAMESPACE}
    assert not re.search(r"@import|url\(|\bsrc=|fetch\(|XMLHttp|import\(", html)
    assert {"link", "img", "iframe", "object", "form"}.isdisjoint(tag for tag, _ in read.tags)
    assert not [each for _, each in read.tags if "style" in each]  # our own policy forbids it


def test_only_our_script_may_run(read: Reader) -> None:
    (policy,) = [
        str(each["content"]) for tag, each in read.tags if tag == "meta" and "http-equiv" in each
    ]
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        digest = b64encode(sha256("".join(read.within(tag)).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


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
