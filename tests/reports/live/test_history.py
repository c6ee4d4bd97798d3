"""What is known of a run: parts, damage, notes, and a curve that has an end."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.gates.story import Event, Reason, Verdict
from ampere.meters.base import Provenance
from ampere.reports.live.curve import MOST_POINTS, Curve, Point
from ampere.reports.live.follower import Line
from ampere.reports.live.history import MOST_NOTES, History, seconds_of
from told_runs import WH, ended, finished, looks, started, text_of


def history_of(*events: Event) -> History:
    history = History()
    for event in events:
        history.learn(event)
    return history


def test_a_run_from_its_start_to_its_end() -> None:
    history = history_of(started())
    assert (history.step, history.spent_j, history.steps) == (0, 0.0, 2000)
    assert (history.budget_j, history.provenance) == (5 * WH, Provenance.SIMULATED)
    *told, last = looks()
    for status in (*told, last):
        history.learn(status)
    assert (history.step, history.spent_j) == (2000, last.spent_j)
    assert history.curve.end_s == last.elapsed_s and history.usual_gap_s == pytest.approx(9, 0.1)
    history.learn(ended(last, notes=("saved",)))
    assert [note.text for note in history.notes] == [
        "started",
        "may exceed its budget, by the forecast",
        "inside its budget, by the forecast",
        "finished",
        "saved",
    ]


def test_a_resumed_run_goes_on_whether_it_counts_on_or_not() -> None:
    first, second = list(looks(until=600)), list(looks(until=400))
    for again in (0.0, first[-1].elapsed_s):
        history = history_of(started(), *first, ended(first[-1], Reason.BUDGET))
        spent_j = first[-1].spent_j
        history.learn(started(step=600, spent_j=spent_j, notes=("from last.pt",)))
        assert (history.end, history.step, history.spent_j) == (None, 600, spent_j)
        for each in second:
            status = replace(each, elapsed_s=each.elapsed_s + again, step=each.step + 600)
            history.learn(replace(status, spent_j=each.spent_j + spent_j))
        assert history.parts == 2
        assert history.curve.end_s == pytest.approx(first[-1].elapsed_s + second[-1].elapsed_s)
        times = [point.time_s for point in history.curve.points]
        assert times == sorted(times)
    assert "resumed, with 5.03 kJ spent before" in [note.text for note in history.notes]
    assert "from last.pt" in [note.text for note in history.notes]


def test_a_run_that_does_not_count_its_seconds() -> None:
    told = list(looks(until=600))
    history = history_of(started(), *(replace(each, elapsed_s=0.0) for each in told))
    assert history.curve.end_s == pytest.approx(told[-1].elapsed_s, abs=1e-3)


def test_of_two_runs_in_a_file_the_last_one_counts() -> None:
    history = history_of(*finished(), started(run="other", budget_j=None, steps=None))
    assert (history.step, history.steps, history.budget_j, history.end) == (0, None, None, None)
    assert [note.text for note in history.notes] == [
        "another run stands before this one in its file",
        "started",
    ]


def test_damaged_lines_are_counted_and_the_rest_is_known() -> None:
    lines = [text.encode() for text in text_of(finished()).splitlines()]
    lines[3], lines[7] = b'{"event": "status", "time": 5}', b"\xff\x00"
    history = History()
    history.take(Line(number, text) for number, text in enumerate((*lines, None), 1))
    assert (history.damaged, history.step) == (3, 2000)
    assert history.first_damage == "line 4: time must be a text, not 5"


def test_a_file_without_its_beginning_is_known_too() -> None:
    history = history_of(*looks(until=100))
    assert (history.start, history.step, history.steps) == (None, 100, 2000)
    assert (history.budget_j, history.provenance) == (5 * WH, Provenance.SIMULATED)


def test_notes_are_the_last_ones() -> None:
    history = History()
    for number, status in enumerate(looks(every=4)):
        history.learn(replace(status, notes=(f"note {number}",), verdict=Verdict.INSIDE))
    assert (len(history.notes), history.dropped_notes) == (MOST_NOTES, 301)
    assert history.notes[-1].text == "note 499"


@given(st.integers(1, 20_000))
def test_a_curve_is_even_and_has_both_ends(count: int) -> None:
    curve = Curve()
    for number in range(count):
        curve.add(Point(float(number), 1.0))
    times = [point.time_s for point in curve.points]
    assert len(times) <= MOST_POINTS + 1
    assert (times[0], times[-1], curve.end_s) == (0.0, count - 1.0, count - 1.0)
    assert len({b - a for a, b in pairwise(times[:-1])}) <= 1


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("1970-01-01T00:01:00+00:00", 60.0),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T00:01:00", 60.0),
        ("1970-01-01T02:01:00.500+02:00", 60.5),
        ("yesterday", None),
        ("", None),
    ],
)
def test_moments(time: str, seconds: float | None) -> None:
    assert seconds_of(time) == seconds


def test_what_was_made_up_is_what_gates_write() -> None:
    for line in text_of(finished()).splitlines():
        assert json.loads(line)["event"] in ("start", "status", "end")
