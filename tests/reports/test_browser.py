"""A report in a real browser: it turns, it counts, it stays silent, and it asks nobody."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampere.reports.profile_page import report
from browser import CHROMIUM, Page, open_browser
from reported import HOSTILE, made_up

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed: make setup-system"
)
SURFACE = "svg.surface"
POINTS = "[...document.querySelectorAll('.face')].map(face => face.getAttribute('points'))"
BY_PLACE = (
    "Object.fromEntries([...document.querySelectorAll('.face')].map(face => [face.dataset.at,"
    " face.getAttribute('points').split(/[ ,]/).map(Number)]))"
)
SHOWN = (
    "[...document.querySelectorAll('.row')].filter(row => row.getAttribute('display') != 'none')"
)
SEEN = "[...document.querySelectorAll('.chooser figure')].map(each => each.offsetHeight > 0)"
TOTAL = "document.querySelector('output').textContent"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    report(made_up()).save(path)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def page(browser: Page, file: Path) -> Iterator[Page]:
    browser.look(1280)
    browser.open(file)
    yield browser
    assert browser.complaints() == []
    assert browser.requests() == [file.resolve().as_uri()]


def numbers(points: list[str]) -> list[list[float]]:
    return sorted([float(n) for n in each.replace(",", " ").split()] for each in points)


def test_a_surface_turns_by_mouse_and_keys_and_back(page: Page) -> None:
    first, places = page.js(POINTS), page.js(BY_PLACE)
    page.drag(SURFACE, 120)
    dragged = page.js(POINTS)
    assert len(dragged) == len(first) and numbers(dragged) != numbers(first)
    page.js(f"document.querySelector('{SURFACE}').focus()")
    page.press("ArrowUp")
    tilted = page.js(POINTS)
    assert numbers(tilted) != numbers(dragged)
    page.press("Home")
    # What the script draws is what stands in the file without it.
    for at, points in page.js(BY_PLACE).items():
        assert points == pytest.approx(places.pop(at), abs=0.3)
    assert not places


def test_turning_once_round_shows_the_numbers_of_three_sides_at_a_time(page: Page) -> None:
    sides = (
        "[...new Set([...document.querySelectorAll('[data-when]')].filter(each =>"
        " each.getAttribute('display') != 'none').map(each => each.dataset.when))].sort()"
    )
    seen = set()
    page.js(f"document.querySelector('{SURFACE}').focus()")
    for _ in range(8):
        for _ in range(9):
            page.press("ArrowLeft")
        found = page.js(sides)
        assert len(found) == 3
        seen.update(found)
    assert seen == {"x0", "x1", "y0", "y1", "x0y0", "x0y1", "x1y0", "x1y1"}


def test_a_surface_turns_by_touch(page: Page) -> None:
    page.look(390, 844, phone=True)
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        first = page.js(POINTS)
        page.swipe(SURFACE, 100)
        assert numbers(page.js(POINTS)) != numbers(first)
    finally:
        page.call("Emulation.setTouchEmulationEnabled", enabled=False)


def test_toggling_a_kind_hides_its_layers_and_changes_the_total(page: Page) -> None:
    boxes = page.js("document.querySelectorAll('.toggles input').length")
    rows, total = page.js(f"{SHOWN}.length"), page.js(TOTAL)
    assert "90 % interval" in total
    page.js("document.querySelector('.toggles input').click()")
    joules = "reduce((sum, row) => sum + Number(row.dataset.j), 0)"
    left = page.js(f"{SHOWN}.{joules}")
    assert page.js(f"{SHOWN}.length") < rows
    size, unit = page.js(
        "(({size, unit}) => [Number(size), unit])(document.querySelector('.toggles').dataset)"
    )
    said = page.js(TOTAL)
    assert float(said.split()[0]) == pytest.approx(left / size, rel=1e-3)
    assert said.split()[1] == unit and "%" in said
    tops = page.js(f"{SHOWN}.map(row => row.getBoundingClientRect().top)")
    assert tops == sorted(tops) and max(b - a for a, b in itertools.pairwise(tops)) < 80
    for number in range(1, boxes):
        page.js(f"document.querySelectorAll('.toggles input')[{number}].click()")
    assert page.js(TOTAL).startswith("0")
    for number in range(boxes):
        page.js(f"document.querySelectorAll('.toggles input')[{number}].click()")
    assert (page.js(TOTAL), page.js(f"{SHOWN}.length")) == (total, rows)


def test_one_kind_is_seen_and_another_can_be_chosen(page: Page) -> None:
    assert page.js(SEEN) == [True, False, False]
    page.js(
        "(s => {s.selectedIndex = 1; s.dispatchEvent(new Event('change'))})"
        "(document.querySelector('.chooser select'))"
    )
    assert page.js(SEEN) == [False, True, False]


@pytest.mark.parametrize("width", [340, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int) -> None:
    page.look(width, phone=width < 500)
    assert page.js("document.documentElement.scrollWidth") <= width
    letters = (
        "Math.min(...[...document.querySelectorAll('svg.chart')].filter(s => s.clientWidth)"
        ".map(s => 11 * s.clientWidth / s.viewBox.baseVal.width))"
    )
    assert page.js(letters) > 8.5


def test_it_is_dark_in_the_dark(page: Page) -> None:
    colours = "getComputedStyle(document.{0}).{1}.match(/\\d+/g).map(Number)"

    def brightness(element: str, style: str) -> float:
        values: list[float] = page.js(colours.format(element, style))
        return sum(values[:3])

    assert brightness("body", "backgroundColor") > 600 > 300 > brightness("body", "color")
    page.look(1280, dark=True)
    assert brightness("body", "backgroundColor") < 300 < 600 < brightness("body", "color")
    assert brightness("querySelector('svg text')", "fill") > 400


def test_without_scripts_everything_is_there(page: Page) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.call("Page.reload")
        until_loaded(page)
        assert page.js(SEEN) == [True, True, True]
        assert page.js("document.querySelectorAll('table').length") == 3
        assert page.js("document.querySelector('fieldset').offsetHeight") == 0
        assert page.js(f"{POINTS}.length") == 144
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
        page.open(Path(page.js("decodeURIComponent(location.pathname)")))


def until_loaded(page: Page) -> None:
    while page.js("document.readyState") != "complete":
        pass


def test_hostile_names_do_nothing(browser: Page, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    report(made_up(suffix=HOSTILE, whole=4)).save(path)
    browser.look(1280)
    browser.open(path)
    assert "alert(1)" in browser.js("document.body.innerText")
    assert browser.js("document.querySelectorAll('img, script').length") == 1
    assert browser.complaints() == []
    assert browser.requests() == [path.resolve().as_uri()]
