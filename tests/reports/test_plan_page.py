"""The page of a plan: all of it is there, joules are called what they are, nothing hostile runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ampere.fleet.plan import Charge, Level, Plan
from ampere.reports.plan_page import report_plan, spent_at
from ampere.reports.timeline import MOST_POINTS, Clock, rows_of, thinned, timeline
from browser import DESK, PHONE, needs_chromium, open_browser, open_file
from golden_files import agreed
from planned import HOUR_S, an_assignment, made_up_plan
from reported import HOSTILE
from reports.page_reader import Reader

SECTIONS = ["Who runs what, and when", "Read with care", "Devices", "Jobs", "How good it is"]


def lane_of(plan: Plan, member: int) -> str:
    standing = plan.standings[member]
    jobs = plan.of_member(standing.member)
    return timeline(standing, jobs, Clock(6 * HOUR_S), title="a", description="b")


def test_every_section_is_there() -> None:
    read = Reader(report_plan(made_up_plan()).html())
    assert read.open == []
    assert read.within("h1") == ["A plan: 7 jobs on 4 devices"]
    assert read.within("h2") == ["Not placed", *SECTIONS]
    assert "2,100 steps instead of 20,000 fit on phone" in read.within("td")


def test_joules_are_called_what_they_are() -> None:
    html = report_plan(made_up_plan()).html()
    assert "joules are measured, modelled and simulated" in html
    assert "what is not measured ranks" in html
    colours = [set(re.findall(r"sort\d", lane_of(made_up_plan(), n))) for n in range(3)]
    assert colours == [{"sort0"}, {"sort1"}, {"sort2"}]


def test_a_measured_plan_of_all_jobs_has_nothing_to_warn_of() -> None:
    plan = made_up_plan()
    (pi, *_) = plan.standings
    calm = replace(plan, warnings=(), unplaced=(), standings=(pi,))
    read = Reader(report_plan(calm).html())
    assert read.within("h2") == SECTIONS
    assert any("Nothing to warn of" in text for text in read.within("p"))


def test_an_empty_plan_is_a_page() -> None:
    plan = replace(made_up_plan(), assignments=(), standings=(), bound=0.0, cost=0.0, energy_j=0.0)
    assert Reader(report_plan(plan).html()).open == []


def test_a_lane_is_as_agreed() -> None:
    """Bars, battery, band, reserve and rate of a device: the picture itself."""
    svg = lane_of(made_up_plan(), 0).replace("><", ">\n<") + "\n"
    assert svg == agreed("timeline.svg", svg)


def test_jobs_at_once_stand_below_each_other() -> None:
    jobs = [an_assignment(str(n), "a", n, n + 1.5, 1.0) for n in range(4)]
    assert [[job.job for job in row] for row in rows_of(jobs)] == [["0", "2"], ["1", "3"]]


def test_what_has_nothing_to_show_is_not_drawn() -> None:
    assert lane_of(made_up_plan(), 3) == ""
    assert "nothing to run" in report_plan(made_up_plan()).html()


@pytest.mark.parametrize(
    ("hours", "ticks"),
    [(6, [0, 2, 4, 6]), (0.05, [0, 1 / 60, 2 / 60, 3 / 60]), (240, [0, 48, 96, 144, 192, 240])],
)
def test_moments_are_round(hours: float, ticks: list[float]) -> None:
    assert [tick / HOUR_S for tick in Clock(hours * HOUR_S).ticks] == pytest.approx(ticks)


def test_a_long_curve_keeps_its_ends() -> None:
    charges = [Charge(n, 1.0, 1.0, 1.0) for n in range(10_001)]
    kept = thinned(charges)
    assert len(kept) <= MOST_POINTS + 1
    assert (kept[0], kept[-1]) == (charges[0], charges[-1])


def test_joules_cost_what_their_hours_cost() -> None:
    job = an_assignment("a", "b", 0.5, 2.5, 3.6e6)
    levels = [Level(0, 10.0), Level(HOUR_S, 20.0), Level(2 * HOUR_S, 40.0)]
    assert spent_at(levels, job) == pytest.approx((0.5 * 10 + 20 + 0.5 * 40) / 2)
    emitted = dict(made_up_rows())
    assert "emits" in emitted and "costs" not in emitted  # not all who run know their price


def made_up_rows() -> list[tuple[str, str]]:
    (facts,) = report_plan(made_up_plan()).sections[-1].parts
    return list(getattr(facts, "rows", ()))


def test_a_hostile_plan_is_shown_and_nothing_runs() -> None:
    html = report_plan(made_up_plan(suffix=HOSTILE)).html()
    read = Reader(html)
    assert read.open == []
    assert len([tag for tag, _ in read.tags if tag == "script"]) == 1
    assert "img" not in {tag for tag, _ in read.tags}
    assert "\x1b" not in html


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@needs_chromium
@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_it_fits_and_is_silent(
    browser: Browser, tmp_path: Path, screen: dict[str, object], scheme: str
) -> None:
    file = tmp_path / "plan.html"
    report_plan(made_up_plan()).save(file)
    with open_file(browser, file, **screen, color_scheme=scheme) as watched:
        width = watched.page.evaluate("document.documentElement.scrollWidth")
        assert width == watched.page.evaluate("innerWidth")  # nothing sticks out
        lanes = watched.page.evaluate(
            "[...document.querySelectorAll('svg.timeline')].map(each =>"
            " [each.getBoundingClientRect(), each.querySelector('.job').getBoundingClientRect()]"
            ".map(box => [box.width, box.height]))"
        )
        assert len(lanes) == 3
        for (wide, high), (bar_wide, bar_high) in lanes:
            assert wide > 0.85 * min(width, 1100) and high > 60
            assert bar_high == pytest.approx(22) and 0 < bar_wide < wide
        half = lanes[1][1][0] / lanes[1][0][0]
        assert half == pytest.approx(3.2 / 6, abs=0.01)  # as long as the job, on any screen
        assert watched.complaints == []
        assert watched.requests == [file.resolve().as_uri()]
