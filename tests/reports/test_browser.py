"""A report in a real browser: it turns, it counts, it stays silent, and it asks nobody."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from ampere.reports.profile_page import report
from browser import DESK, PHONE, Watched, needs_chromium, open_browser, open_file
from reported import HOSTILE, made_up

pytestmark = needs_chromium
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
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def watched(browser: Browser, file: Path) -> Iterator[Watched]:
    with open_file(browser, file) as watched:
        yield watched
        silent(watched, file)


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page


def silent(watched: Watched, file: Path) -> None:
    """It asked for nothing but itself, and neither it nor the browser complained."""
    assert watched.complaints == []
    assert watched.requests == [file.resolve().as_uri()]


def numbers(points: list[str]) -> list[list[float]]:
    return sorted([float(n) for n in each.replace(",", " ").split()] for each in points)


def test_a_surface_turns_by_mouse_and_keys_and_back(watched: Watched, page: Page) -> None:
    first, places = page.evaluate(POINTS), page.evaluate(BY_PLACE)
    watched.drag(SURFACE, 120)
    dragged = page.evaluate(POINTS)
    assert len(dragged) == len(first) and numbers(dragged) != numbers(first)
    page.evaluate(f"document.querySelector('{SURFACE}').focus()")
    page.keyboard.press("ArrowUp")
    tilted = page.evaluate(POINTS)
    assert numbers(tilted) != numbers(dragged)
    page.keyboard.press("Home")
    # What the script draws is what stands in the file without it.
    for at, points in page.evaluate(BY_PLACE).items():
        assert points == pytest.approx(places.pop(at), abs=0.3)
    assert not places


def test_turning_once_round_shows_the_numbers_of_three_sides_at_a_time(page: Page) -> None:
    sides = (
        "[...new Set([...document.querySelectorAll('[data-when]')].filter(each =>"
        " each.getAttribute('display') != 'none').map(each => each.dataset.when))].sort()"
    )
    seen = set()
    page.evaluate(f"document.querySelector('{SURFACE}').focus()")
    for _ in range(8):
        for _ in range(9):
            page.keyboard.press("ArrowLeft")
        found = page.evaluate(sides)
        assert len(found) == 3
        seen.update(found)
    assert seen == {"x0", "x1", "y0", "y1", "x0y0", "x0y1", "x1y0", "x1y1"}


def test_a_surface_turns_by_touch(browser: Browser, file: Path) -> None:
    with open_file(browser, file, **PHONE) as phone:
        first = phone.page.evaluate(POINTS)
        phone.swipe(SURFACE, 100)
        assert numbers(phone.page.evaluate(POINTS)) != numbers(first)
        silent(phone, file)


def test_toggling_a_kind_hides_its_layers_and_changes_the_total(page: Page) -> None:
    boxes = page.evaluate("document.querySelectorAll('.toggles input').length")
    rows, total = page.evaluate(f"{SHOWN}.length"), page.evaluate(TOTAL)
    assert "90 % interval" in total
    page.evaluate("document.querySelector('.toggles input').click()")
    joules = "reduce((sum, row) => sum + Number(row.dataset.j), 0)"
    left = page.evaluate(f"{SHOWN}.{joules}")
    assert page.evaluate(f"{SHOWN}.length") < rows
    size, unit = page.evaluate(
        "(({size, unit}) => [Number(size), unit])(document.querySelector('.toggles').dataset)"
    )
    said = page.evaluate(TOTAL)
    assert float(said.split()[0]) == pytest.approx(left / size, rel=1e-3)
    assert said.split()[1] == unit and "%" in said
    tops = page.evaluate(f"{SHOWN}.map(row => row.getBoundingClientRect().top)")
    assert tops == sorted(tops) and max(b - a for a, b in itertools.pairwise(tops)) < 80
    for number in range(1, boxes):
        page.evaluate(f"document.querySelectorAll('.toggles input')[{number}].click()")
    assert page.evaluate(TOTAL).startswith("0")
    for number in range(boxes):
        page.evaluate(f"document.querySelectorAll('.toggles input')[{number}].click()")
    assert (page.evaluate(TOTAL), page.evaluate(f"{SHOWN}.length")) == (total, rows)


def test_one_kind_is_seen_and_another_can_be_chosen(page: Page) -> None:
    assert page.evaluate(SEEN) == [True, False, False]
    page.evaluate(
        "(s => {s.selectedIndex = 1; s.dispatchEvent(new Event('change'))})"
        "(document.querySelector('.chooser select'))"
    )
    assert page.evaluate(SEEN) == [False, True, False]


@pytest.mark.parametrize("width", [340, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(browser: Browser, file: Path, width: int) -> None:
    screen = PHONE if width < 500 else DESK
    with open_file(browser, file, **{**screen, "viewport": {"width": width, "height": 900}}) as it:
        assert it.page.evaluate("document.documentElement.scrollWidth") <= width
        letters = (
            "Math.min(...[...document.querySelectorAll('svg.chart')].filter(s => s.clientWidth)"
            ".map(s => 11 * s.clientWidth / s.viewBox.baseVal.width))"
        )
        assert it.page.evaluate(letters) > 8.5
        silent(it, file)


def test_it_is_dark_in_the_dark(page: Page) -> None:
    colours = "getComputedStyle(document.{0}).{1}.match(/\\d+/g).map(Number)"

    def brightness(element: str, style: str) -> float:
        values: list[float] = page.evaluate(colours.format(element, style))
        return sum(values[:3])

    assert brightness("body", "backgroundColor") > 600 > 300 > brightness("body", "color")
    page.emulate_media(color_scheme="dark")
    assert brightness("body", "backgroundColor") < 300 < 600 < brightness("body", "color")
    assert brightness("querySelector('svg text')", "fill") > 400


def test_on_paper_every_kind_is_seen(page: Page) -> None:
    page.emulate_media(media="print")
    assert page.evaluate(SEEN) == [True, True, True]
    assert page.evaluate("document.querySelector('nav').offsetHeight") == 0
    assert page.pdf().startswith(b"%PDF")


def test_without_scripts_everything_is_there(browser: Browser, file: Path) -> None:
    with open_file(browser, file, java_script_enabled=False) as still:
        assert still.page.evaluate(SEEN) == [True, True, True]
        assert still.page.evaluate("document.querySelectorAll('table').length") == 3
        assert still.page.evaluate("document.querySelector('fieldset').offsetHeight") == 0
        assert still.page.evaluate(f"{POINTS}.length") == 144
        silent(still, file)


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    report(made_up(suffix=HOSTILE, whole=4)).save(path)
    with open_file(browser, path) as watched:
        assert "alert(1)" in watched.page.evaluate("document.body.innerText")
        assert watched.page.evaluate("document.querySelectorAll('img, script').length") == 1
        silent(watched, path)
