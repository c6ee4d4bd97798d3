"""Runs in a real browser: followed, replayed, crashed, hostile; on a phone, in the dark, alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ampere.gates.story import Part, Reason
from ampere.reports.live.desk import save_snapshot
from ampere.reports.live.watch import Watch
from browser import DESK, PHONE, Watched, needs_chromium, open_address, open_browser, open_file
from reported import HOSTILE
from told_runs import WH, append, ended, finished, looks, started, write_run
from watching import Watching, watching

pytestmark = needs_chromium
TIMES = "JSON.parse(document.querySelector('[data-name={}]').dataset.plot).lines[0].values.length"
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that goes on, one that ended, one that was stopped, one that crashed, a hostile one."""
    home = tmp_path_factory.mktemp("runs")
    now = datetime.now(timezone.utc)
    live = started(time=now.isoformat())
    write_run(home / "live", [live, *looks(until=600, begun=now)])
    write_run(home / "finished", finished(run="b", name="finished one"))
    over = list(looks(until=1540, total_j=6.3 * WH))
    write_run(home / "stopped", [started(run="d"), *over, ended(over[-1], Reason.BUDGET)])
    crashed = write_run(home / "crashed", [started(run="c", name="lstm"), *looks(until=600)])
    os.utime(crashed, (now.timestamp() - 7300,) * 2)
    hostile = started(
        run="h", name=HOSTILE, device=HOSTILE, notes=(HOSTILE,), layers=(Part(HOSTILE, 1.0),)
    )
    told = [replace(each, notes=(HOSTILE,)) for each in looks(until=50)]
    write_run(home / "hostile", [hostile, *told])
    return home


@pytest.fixture(scope="module")
def served(runs: Path) -> Iterator[Watching]:
    with watching(runs) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


def silent(watched: Watched, home: str) -> None:
    """It asked nobody but its server, and neither it nor the browser complained."""
    assert watched.complaints == []
    assert [url for url in watched.requests if not url.startswith((home, "data:"))] == []


def is_live(page: Page) -> None:
    expect(page.locator("#link")).to_have_text("live")


def test_a_run_is_followed_to_its_end(browser: Browser, tmp_path: Path) -> None:
    begun = datetime.now(timezone.utc)
    told = list(looks(begun=begun))
    path = tmp_path / "run" / "gate.jsonl"
    with watching(tmp_path / "run") as served, open_address(browser, served.url) as watched:
        page = watched.page
        bar = page.locator("#bar")
        expect(bar).to_contain_text("waits for its first line: it is not there yet")
        write_run(path.parent, [started(time=begun.isoformat()), *told[:60]])
        expect(bar).to_contain_text("would end at 4.82 of 5 Wh, and may exceed it")
        expect(bar).to_contain_text("Joules are simulated, not measured.")
        assert page.evaluate("document.querySelectorAll('canvas').length") == 2
        assert page.evaluate(TIMES.format("spent")) == 61
        page.evaluate("document.querySelector('canvas').dataset.mark = 'kept'")
        append(path, *told[60:120])
        expect(bar).to_contain_text("would end at 4.78 of 5 Wh")
        expect(page.locator("#head")).to_contain_text("1,200")
        assert page.evaluate(TIMES.format("spent")) == 121
        assert page.evaluate("document.querySelector('canvas').dataset.mark") == "kept"
        assert "2.84" in page.inner_text("#spent .u-legend")
        append(path, *told[120:], ended(told[-1], notes=("saved as model.pt",)))
        expect(bar).to_contain_text("took 4.8 of 5 Wh")
        expect(page.locator("#notes")).to_contain_text("saved as model.pt")
        is_live(page)
        silent(watched, served.url)
        assert served.interrupt() == 0
        expect(page.locator("#link")).to_have_text("no connection: what you see is old")


def test_many_runs_side_by_side_and_each_alone(browser: Browser, served: Watching) -> None:
    with open_address(browser, served.url) as watched:
        page = watched.page
        is_live(page)
        assert page.inner_text("h1") == "5 runs"
        text = page.inner_text("main")
        assert "took 4.8 of 5 Wh" in text
        assert "stopped at its budget: 4.83 of 5 Wh, step 1,540 of 2,000" in text
        assert "it crashed, or was killed: no end, and no word for 2 hours" in text
        assert page.evaluate("document.querySelectorAll('#together .u-series').length") == 6
        page.get_by_role("link", name="lstm").click()
        expect(page.locator("h1")).to_have_text("lstm")
        expect(page.locator("#bar .pill")).to_have_text("crashed")
        is_live(page)
        page.get_by_role("link", name="all runs").click()
        expect(page.locator("h1")).to_have_text("5 runs")
        silent(watched, served.url)


def test_hostile_texts_do_nothing(browser: Browser, served: Watching) -> None:
    with open_address(browser, served.url) as watched:
        page = watched.page
        page.locator("section", has_text="alert(1)").locator("h2 a").first.click()
        is_live(page)
        assert page.evaluate("document.body.innerText").count("alert(1)") >= 5
        assert page.evaluate("document.querySelectorAll('img, [onerror]').length") == 0
        assert page.evaluate("document.querySelectorAll('script').length") == 1
        assert "\u202e" not in page.title() and "\x1b" not in page.title()
        silent(watched, served.url)


def test_a_phone_in_the_dark(browser: Browser, served: Watching) -> None:
    with open_address(browser, served.url, **PHONE, color_scheme="dark") as watched:
        page = watched.page
        is_live(page)
        for name in ("5 runs", "cnn5 on digits"):
            expect(page.locator("h1")).to_have_text(name)
            assert page.evaluate(WIDTH) <= 390
            if name == "5 runs":
                page.get_by_role("link", name="live").first.click()
        assert sum(_colour(page, "body", "backgroundColor")) < 120
        assert sum(_colour(page, ".verdict", "color")) > 600
        page.evaluate("scrollTo(0, 1e6)")  # what joules are is always in sight
        box = page.locator(".origin").bounding_box()
        assert box is not None and 0 <= box["y"] < 200
        page.emulate_media(color_scheme="light")
        assert sum(_colour(page, "body", "backgroundColor")) > 600
        assert page.evaluate("document.querySelectorAll('canvas').length") == 2
        silent(watched, served.url)


def _colour(page: Page, selector: str, style: str) -> list[int]:
    script = "([s, style]) => getComputedStyle(document.querySelector(s))[style].match(/\\d+/g)"
    return [int(each) for each in page.evaluate(script, [selector, style])[:3]]


def test_without_events_it_asks(browser: Browser, served: Watching) -> None:
    with browser.new_context(**DESK) as context:
        page = context.new_page()
        page.route("**/events/**", lambda route: route.fulfill(status=503))
        page.goto(served.url)
        expect(page.locator("#link")).to_have_text("live, asking every 2 s")


def test_a_snapshot_needs_no_server(browser: Browser, runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    save_snapshot(Watch([runs / "finished"]), page)
    with open_file(browser, page) as watched:
        assert watched.page.evaluate("document.querySelectorAll('canvas').length") == 2
        assert "as of 20" in watched.page.inner_text("#link")
        assert "took 4.8 of 5 Wh" in watched.page.inner_text("#bar")
        assert watched.complaints == [] and watched.requests[:1] == [page.as_uri()]
        assert {url.partition(":")[0] for url in watched.requests} <= {"file", "data"}
    with open_file(browser, page, java_script_enabled=False) as still:
        assert "took 4.8 of 5 Wh" in still.page.inner_text("body")
        assert still.page.locator("noscript").count() == 1
