"""The book and its file: entries that contradict each other, torn and hostile lines."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import DataError, JournalError
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.events import (
    KINDS,
    Broken,
    Event,
    Joined,
    Opened,
    Paid,
    Planned,
    Portion,
    Sent,
    event_json,
    read_event,
)
from ampere.fleet.runs.logbook import FILE, Logbook, read_logbook
from ampere.fleet.runs.orders import Answer, ChunkOrder, Greeting, Routine
from fleet.stories import DIGEST, JOINED, OPENED, PAID, SENT, SIMULATED, STORY


def test_a_story_adds_up() -> None:
    book = Book.of(STORY)
    a, x = book.members["a"], book.jobs["x"]
    assert (a.paid_j, a.wasted_j, a.metered_j, a.other_j, a.usable_j) == (
        28.0,
        7.0,
        28.0,
        0.0,
        62.0,
    )
    assert (x.done, x.left, x.energy_j, x.wasted_j, x.checkpoint) == (10, 10, 28.0, 7.0, DIGEST)
    assert (book.paid_j, book.wasted_j, book.unplanned("x"), book.plans) == (28.0, 7.0, 0, 2)
    assert book.members["b"].usable_j == math.inf


def test_joules_of_no_job_are_named() -> None:
    book = Book.of([*STORY[:5], Joined(9.0, "a", "device", SIMULATED, 30.0, 75.0)])
    assert book.members["a"].other_j == 4.0


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        (OPENED, "an event of 0 s comes after"),
        (Opened(9.0, "run", "2026", OPENED.accounts, ()), "is opened once"),
        (Sent(9.0, 1, "x", "a", 10, 10, 1.0), "chunk 1 was sent before"),
        (Sent(9.0, 7, "x", "a", 0, 10, 1.0), "has done 10 steps, not 0"),
        (Sent(9.0, 7, "x", "b", 10, 10, 1.0), "is not planned for member b"),
        (Sent(9.0, 7, "y", "a", 0, 1, 1.0), "there is no job y"),
        (Sent(9.0, 7, "x", "c", 10, 1, 1.0), "there is no member c"),
        (Paid(9.0, 1, 10, 1.0, 27.0, SIMULATED, None, DIGEST), "chunk 1 was paid before"),
        (Paid(9.0, 9, 10, 1.0, 27.0, SIMULATED, None, DIGEST), "no chunk 9 was sent"),
        (Broken(9.0, 1, "why"), "chunk 1 does not run"),
        (Joined(9.0, "a", "another", SIMULATED, 30.0), "joined as another device"),
        (Joined(9.0, "a", "device", SIMULATED, 3.0), "its meter went back"),
        (Planned(9.0, "why", (Portion("x", "a", 11, 1.0, 1.0),), {}), "more steps are planned"),
        (Planned(9.0, "why", (Portion("x", "c", 1, 1.0, 1.0),), {}), "there is no member c"),
    ],
)
def test_what_contradicts_the_book_is_refused(event: Event, wrong: str) -> None:
    book, same = Book.of(STORY[:5]), Book.of(STORY[:5])
    with pytest.raises(DataError, match=wrong):
        book.add(event)
    assert book == same


def test_a_job_is_at_one_place_at_a_time() -> None:
    both = (Portion("x", "a", 10, 1.0, 1.0), Portion("x", "b", 10, 1.0, 1.0))
    book = Book.of([OPENED, Planned(1.0, "the plan", both, {}), JOINED, SENT])
    with pytest.raises(DataError, match="job x runs already"):
        book.add(Sent(3.0, 2, "x", "b", 0, 10, 1.0))


def test_steps_that_come_back_after_all_are_not_run_again() -> None:
    book = Book.of([*STORY[:8], Planned(6.0, "gone", (Portion("x", "b", 10, 9.0, 9.0),), {})])
    book.add(Paid(7.0, 2, 10, 20.0, 46.0, SIMULATED, 59.0, DIGEST))
    assert (book.jobs["x"].left, book.portions, book.wasted_j, book.ended) == (0, [], 0.0, True)


@pytest.mark.parametrize("event", STORY, ids=lambda event: event.name)
def test_an_event_survives_its_line(event: Event) -> None:
    assert read_event(json.loads(json.dumps(event_json(event)))) == event


def test_every_kind_is_in_the_story() -> None:
    assert {type(event) for event in STORY} == {*KINDS}


@pytest.mark.parametrize("event", STORY[:8], ids=lambda event: event.name)
def test_every_field_is_checked(event: Event) -> None:
    row = json.loads(json.dumps(event_json(event)))
    for name in row:
        for bad in ("\ud800", -1, 1e300, ["x"], {"x": [[[[[[[[1]]]]]]]]}):
            if name in ("flat",) and bad == -1:
                continue
            with pytest.raises(DataError):
                read_event({**row, name: bad})
    with pytest.raises(DataError, match="is unknown"):
        read_event({**row, "command": "rm"})


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_whatever_is_no_event_is_refused_in_a_line(row: object) -> None:
    for reader in (read_event, lambda row: Answer.of(json.dumps(row))):
        with pytest.raises(DataError):
            reader(row)


def write(folder: Path, events: tuple[Event, ...]) -> Path:
    with Logbook(folder, OPENED) as logbook:
        for event in events[1:]:
            logbook.append(event)
    return folder / FILE


def test_a_torn_line_is_cut_off_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path, STORY[:4])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event": "pa')
    assert read_logbook(tmp_path) == Book.of(STORY[:4])
    with Logbook(tmp_path, OPENED) as logbook:
        logbook.append(PAID)
    assert read_logbook(tmp_path) == Book.of(STORY[:5])
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize("cut", range(0, 400, 37))
def test_a_crash_at_any_byte_loses_the_last_line_at_most(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, STORY[:5])
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    path.write_bytes(data[: first + cut])
    whole = data[: first + cut].count(b"\n")
    assert read_logbook(tmp_path) == Book.of(STORY[:whole])


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, STORY)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"?\n", *lines[3:]]))
    with pytest.raises(JournalError, match="line 3 is damaged"):
        read_logbook(tmp_path)
    path.write_bytes(b"".join([*lines[:5], lines[4], *lines[5:]]))
    with pytest.raises(JournalError, match=r"line 6 is damaged: chunk 1 was paid before"):
        read_logbook(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(JournalError, match="is empty"):
        read_logbook(tmp_path)


def test_no_logbook_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="does not exist"):
        read_logbook(tmp_path)


def test_a_moment_is_read_as_everywhere_else() -> None:
    row = json.loads(json.dumps(event_json(OPENED)))
    for text in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T01:00:00+01:00"):
        assert read_event({**row, "begins": text}) == OPENED
    with pytest.raises(DataError, match=r"^begins: 'soon' is no moment: write it like"):
        read_event({**row, "begins": "soon"})


def test_a_newer_logbook_is_refused() -> None:
    with pytest.raises(DataError, match="newer ampere"):
        read_event({**event_json(OPENED), "version": 99})


def test_lines_have_sorted_keys(tmp_path: Path) -> None:
    for line in write(tmp_path, STORY).read_text().splitlines():
        row = json.loads(line)
        assert list(row) == sorted(row)


@pytest.mark.parametrize(
    ("workload", "wrong"),
    [
        ({"stage": "step", "model": {"model": "net.py:Net"}}, "is code of one machine"),
        ({"stage": "step", "model": {"model": "os:system"}}, "is code of one machine"),
        ({"stage": "step", "model": {"model": "hf:./folder"}}, "is code of one machine"),
        ({"stage": "step", "loader": "x.py:load", "layers": []}, "they are code"),
        ({"stage": "step", "layers": []}, "layers"),
        ({"stage": "loading", "layers": []}, "stage"),
    ],
)
def test_no_code_goes_to_a_worker(workload: dict[str, object], wrong: str) -> None:
    with pytest.raises(DataError, match=wrong):
        ChunkOrder.of(ChunkOrder("key", "x", 0, 1, 1.0, Routine(1), workload).text())


def test_answers_and_greetings_are_data() -> None:
    with pytest.raises(DataError, match="out of memory"):
        Answer.of('{"failed": "out of memory"}')
    for wrong in (b"", None, 3, "[]", '{"key": 1}'):
        with pytest.raises(DataError):
            Answer.of(wrong)
        with pytest.raises(DataError):
            Greeting.of(wrong)


def test_as_many_jobs_may_fit_nowhere_as_there_may_be() -> None:
    event = Planned(0.0, "the plan", (), {f"job {number}": "no room" for number in range(201)})
    assert read_event(json.loads(json.dumps(event_json(event)))) == event
