"""Pages made of a stranger's files, in a real browser: text is text, and nothing else happens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser
from torch import nn

from ampere.core.budget import parse_budget
from ampere.core.fingerprint import Fingerprint
from ampere.evaluation.check import Check
from ampere.evaluation.evaluation import Evaluation, ModelResult
from ampere.evaluation.measured import Measured
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.pruning.result import Pruning
from ampere.pruning.search import Search
from ampere.pytorch.pruning.slimmer import Slim
from ampere.records.repeats import Repeats
from ampere.reports.html import Report
from ampere.reports.plan_page import report_plan
from ampere.reports.profile_page import report
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.lab.plans import FULL
from ampere_paper.results.folder import Results
from ampere_paper.study.study import Contender, Curve, Study
from browser import DESK, PHONE, Watched, needs_chromium, open_browser, open_file
from planned import made_up_plan

from .hostile import RUN, attack, hostile_profile, with_texts

pytestmark = needs_chromium

KEPT = Path(__file__).parents[2] / "docs" / "paper"
# Whatever of these stands in a page was not put there by us.
INJECTED = (
    "iframe, object, embed, form, button, base, link, meta[http-equiv=refresh], area, video, audio,"
    " template, foreignObject, [onerror], [onload], [onmouseover], [onfocus], [onclick],"
    " [autofocus], a:not([href^='#section-']), input:not([type=checkbox]), use, image, animate, set"
)
EVIL_SVG = f"""<svg xmlns="http://www.w3.org/2000/svg" width="99" height="99" onload="{RUN}">
<script>{RUN};parent.{RUN}</script><image href="http://127.0.0.1:9/x.png"/></svg>"""

REPEATS = Repeats(within=0.04, between=0.02, degrees=3, apart_s=9.0, when=attack("when"))
NAMES = frozenset({"title", "case", "set", "model", "device", "untrained"})  # texts in data


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def profile() -> Profile:
    return hostile_profile()


def check_harmless(watched: Watched, path: Path, fields: tuple[str, ...], scripts: int) -> None:
    """No script ran, no element is there that is not ours, nothing was asked for, all is shown."""
    page = watched.page
    page.wait_for_timeout(100)  # for whatever would happen later
    assert page.evaluate("window.ran") is None
    assert page.title() != "run"
    assert page.evaluate("document.querySelectorAll('script').length") == scripts
    assert (
        page.evaluate(f'[...document.querySelectorAll("{INJECTED}")].map(e => e.outerHTML)') == []
    )
    assert [url for url in watched.requests if not url.startswith("data:")] == [path.as_uri()]
    assert watched.complaints == []
    text = page.evaluate("document.body.innerText")
    assert [field for field in fields if f"{field}§<script>{RUN}" not in text] == []
    assert "{{7*7}}" in text
    assert "\u202e" not in text and "\x1b" not in text and "\0" not in text


SHOWN = (
    "model", "device", "meter", "setting", "set", "created", "note", "notes", "failed", "when",
    "operation", "kind", "layer", "optimizer",
)  # fmt: skip


@pytest.fixture(scope="module")
def page(profile: Profile) -> Report:
    return report(profile)


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
def test_a_report(browser: Browser, page: Report, tmp_path: Path, screen: dict[str, Any]) -> None:
    path = tmp_path / "report.html"
    page.save(path)
    with open_file(browser, path, **screen) as watched:
        check_harmless(watched, path, SHOWN, scripts=1)
        assert watched.page.evaluate("document.querySelectorAll('img').length") == 0
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        assert width <= screen["viewport"]["width"]
        overlapping = (
            "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > 3 * innerWidth"
            " && e.scrollWidth > 1500).length"
        )
        assert watched.page.evaluate(overlapping) == 0  # long words are broken, not scrolled to
        for label in watched.page.locator("label").all():
            label.click()
        watched.page.keyboard.press("Tab")
        check_harmless(watched, path, SHOWN[:3], scripts=1)


@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
def test_a_plan(browser: Browser, tmp_path: Path, screen: dict[str, Any]) -> None:
    path = tmp_path / "plan.html"
    report_plan(made_up_plan(suffix=attack(""))).save(path)
    fields = ("digits", "pi", "Raspberry Pi 5, 4 cores", "translate", "energy", "fit on phone")
    with open_file(browser, path, **screen) as watched:
        check_harmless(watched, path, fields, scripts=1)
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        assert width <= screen["viewport"]["width"]


def test_charts_as_files(page: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampere.reports.html.png", lambda svg: None)  # it takes time
    for path in page.save_figures(tmp_path / "figures"):
        assert path.parent == tmp_path / "figures"
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
        assert tags <= {"svg", "g", "rect", "text", "title", "desc", "style", "polyline",
                        "polygon", "circle", "line", "path", "tspan"}  # fmt: skip
    assert {each.name for each in tmp_path.iterdir()} <= {"figures", "config"}


def a_pruning(profile: Profile) -> Pruning:
    layers = profile.measurements[2].layers
    before = profile.estimate(layers)
    return Pruning(
        name=attack("pruned"),
        budget=parse_budget("50%"),
        limit_j=1.0,
        search=Search(),
        before=before,
        after=before,
        layers_before=layers,
        slim=Slim(nn.Identity(), layers, {}, {}, rebuilt=False),
        widths={"a": 1},
        full_widths={"a": 2},
        importance_kept=0.5,
        ratios={},
        metered=(profile.measurements[2],) * 2,
        source=attack("source"),
        warnings=(attack("cut"),),
    )


def an_evaluation() -> Evaluation:
    energies = (0.01, 0.02, 0.03)
    results = tuple(
        ModelResult(attack("member"), e, e / 4, e, e, {attack("method"): e}, (e / 2, 2 * e), 1e6)
        for e in energies
    )
    reasons = (attack("reason"),)
    return Evaluation(results, reasons, 38, 312.4, attack("device"), Provenance.SIMULATED, 9)


def a_check() -> Check:
    return Check(
        repeats=replace(REPEATS, apart_s=90.0),
        at_once=REPEATS,
        foreign_load=0.1,
        advice=(attack("advice"),),
        depths=(0, 1, 2),
        stacked_j=(0.01, 0.02, 0.03),
        slope_j=0.01,
        r2=0.99,
        largest_deviation=0.01,
        orders_j={attack("order"): 0.02, "ABA": 0.02, "BAA": 0.02},
        order_deviation=0.01,
        provenance=Provenance.SIMULATED,
        idle_w=2.7,
    )


def a_measured(profile: Profile) -> Measured:
    row = replace(profile.measurements[2], device=attack("id"), sitting=attack("sitting"))
    device = Fingerprint({"device": attack("board")})
    return Measured((row, row), REPEATS, device, attack("measured"))


def a_study() -> Study:
    curve = Curve(attack("curve"), (10, 20), (2.0, 0.5), (0.2, 0.9), (1.0, 2.0), (1.0, 2.0))
    one = Contender(curve, 10, 1e6, {attack("width"): 3}, 0.1, 0.01, 0.5, 0.9)
    return Study(
        attack("model"), attack("data"), attack("budget"), 10.0, (one, one), 10,
        attack("optimizer"), 0.05, attack("strategy"), 0.9, 0, Provenance.SIMULATED,
        attack("device"), attack("when"), (attack("warning"),),
    )  # fmt: skip


def test_notebooks(browser: Browser, profile: Profile, tmp_path: Path) -> None:
    strange = replace(profile.measurements[2].layers[0], name=attack("stranger"))
    uncovered = replace(strange, kind=replace(strange.kind, name=attack("unknown")))
    estimates = (
        profile.estimate(profile.measurements[2].layers, battery_wh=5.0),
        profile.estimate((*profile.measurements[2].layers, uncovered)),
    )
    results = (profile, *estimates, an_evaluation(), a_check(), a_measured(profile),
               a_pruning(profile), a_study())  # fmt: skip
    pages = "\n".join(result._repr_html_() for result in results)
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><title>notebook</title>{pages}", encoding="utf-8"
    )
    fields = ("device", "model", "notes", "operation", "layer", "kind", "stranger", "pruned", "cut",
              "reason", "curve", "data", "budget", "strategy", "warning", "optimizer", "order",
              "advice", "measured", "board")  # fmt: skip
    with open_file(browser, path) as watched:
        check_harmless(watched, path, fields, scripts=0)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The paper's results as somebody may send them: titles, figures and all."""
    folder = tmp_path_factory.mktemp("results")
    shutil.copytree(KEPT / "data", folder / "data")
    (folder / "figures").mkdir()
    (folder / "tables").mkdir()
    plan = {"plan": attack("plan")[:90], "begun": "2026", "machine": attack("machine")}
    (folder / "plan.json").write_text(json.dumps(plan))
    for name, experiment in EXPERIMENTS.items():
        file = folder / "data" / f"{name}.json"
        kept = json.loads(file.read_text())
        kept["data"] = with_texts(kept["data"], NAMES)
        file.write_text(json.dumps(kept))
        for figure in experiment.figures:
            (folder / "figures" / f"{figure}.svg").write_text(EVIL_SVG)
    made = Results.open(folder)
    made.write_pages({})
    return made


@pytest.mark.parametrize("name", ["index.html", "recorded.html"])
def test_pages_of_the_paper(browser: Browser, results: Results, name: str) -> None:
    path = results.folder / name
    fields = ("title", "machine", "plan") if name == "index.html" else ("case",)
    with open_file(browser, path) as watched:
        check_harmless(watched, path, fields, scripts=1)
        pictures = watched.page.evaluate("[...document.images].map(each => each.src.slice(0, 26))")
        assert set(pictures) == {"data:image/svg+xml;base64,"}
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_markdown_of_the_paper(results: Results) -> None:
    for path in results.folder.glob("*.md"):
        assert "<script" not in path.read_text() and "](http" not in path.read_text()


@pytest.mark.filterwarnings("ignore")  # of what has no glyph, and no room
def test_figures_of_the_paper(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampere_paper.figures.style.DPI", 30)
    experiment = EXPERIMENTS["fig5"]
    results.show(experiment, results.earlier_data(experiment, FULL))
    drawn = (results.folder / "figures" / "fig5.svg").read_bytes()
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()}
    assert not tags & {"script", "image", "foreignObject", "a"}
    assert "<script" not in (results.folder / "tables" / "fig5.md").read_text()
