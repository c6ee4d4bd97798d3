"""The book of rounds on the disk: a server that is started again knows its clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampere.errors import DataError, JournalError
from ampere.fleet.federation.attendance import Attendance
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.register import Register, restore, told
from ampere.fleet.federation.rounds import Terms
from ampere.profiles.jobs.job import MOST_J
from fleet.federation.clients import a_quote, quotes

ROUND_J = 1.1 * 32.0  # the bound of a round of `a_quote()`


def a_book() -> Attendance:
    """Of three clients: one trained, one had too little, one keeps silent."""
    book = Attendance(Terms(1))
    book.open_round(1, [7, 8, 2**63])
    book.told(7, a_quote(left_j=100.0))
    book.told(8, a_quote(left_j=1.0))
    book.silent(2**63)
    book.choose()
    book.answered(7, None)
    book.close_round()
    return book


def test_a_server_that_is_started_again_goes_on_choosing(tmp_path: Path) -> None:
    first = a_book()
    register = Register(tmp_path / "book.json", first)
    register.keep()
    register.close()
    again = Attendance(Terms(1))
    Register(tmp_path / "book.json", again).close()
    for book in (first, again):
        book.open_round(2, [7, 8, 2**63])
    assert (again.history, again.to_ask()) == (first.history, first.to_ask())
    assert again.candidates() == first.candidates()
    assert [each.usable_j for each in again.candidates()] == [100.0 - ROUND_J, 1.0]
    assert again.choose() == first.choose()


def test_a_server_that_was_killed_in_a_round_knows_what_clients_may_have_spent(
    tmp_path: Path,
) -> None:
    book = a_book()
    register = Register(tmp_path / "book.json", book)
    book.open_round(2, [7])
    assert [each.name for each in book.choose().invitations] == [7]
    register.keep()  # and then nothing more
    register.close()
    again = Attendance(Terms(1))
    Register(tmp_path / "book.json", again).close()
    again.open_round(3, [7])
    assert [each.usable_j for each in again.candidates()] == [100.0 - 2 * ROUND_J]
    assert again.entry(7).taken == 2


def test_one_server_at_a_time(tmp_path: Path) -> None:
    register = Register(tmp_path / "book.json", a_book())
    with pytest.raises(JournalError, match="is another server's"):
        Register(tmp_path / "book.json", a_book())
    register.close()


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be used"):
        Register(tmp_path / "nowhere" / "book.json", a_book())


def without(*path: str | int) -> Any:
    row = json.loads(json.dumps(told(a_book())))
    inner = row
    for each in path[:-2]:
        inner = inner[each]
    inner[path[-2]] = path[-1]
    return row


DAMAGED = [
    ([], "must be an object"),
    (without("version", 99), "newer ampere"),
    (without("round", 0), "seen must be a whole number from 1 to 0"),
    (without("clients", 0, "owed_j", -1.0), "owed_j must be a number from 0"),
    (without("clients", 0, "name", 8), "has the name of another client"),
    (without("clients", 0, "quote", "samples", 0), "samples must be a whole number from 1"),
    (without("clients", 0, "taken", 2), "taken must be a whole number"),
    (without("history", 0, "answered", [8]), "was not asked"),
    (without("history", 0, "refusals", {"a": "b"}), "by the numbers of clients"),
]


@pytest.mark.parametrize(("row", "says"), DAMAGED)
def test_what_is_damaged_is_refused(tmp_path: Path, row: Any, says: str) -> None:
    (tmp_path / "book.json").write_text(json.dumps(row))
    book = a_book()
    before = told(book)
    with pytest.raises(JournalError, match="is damaged") as refusal:
        Register(tmp_path / "book.json", book)
    assert says in str(refusal.value) and "\n" not in str(refusal.value)
    assert told(book) == before


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(rounds=st.lists(st.lists(quotes(), min_size=1, max_size=3), max_size=4))
def test_what_is_told_is_restored(rounds: list[list[Any]]) -> None:
    book = Attendance(Terms(2))
    for number, said in enumerate(rounds, 1):
        book.open_round(number, range(len(said)))
        for name, quote in enumerate(said):
            book.told(name, quote)
        for each in book.choose().invitations[:1]:
            book.answered(each.name, None)
        book.close_round()
    again = Attendance(Terms(2))
    restore(again, json.loads(json.dumps(told(book))))
    assert told(again) == told(book)
    assert again.history == book.history


def test_what_is_none_is_refused() -> None:
    with pytest.raises(DataError):
        restore(a_book(), {"version": 1})


def test_as_many_clients_may_be_refused_as_there_may_be() -> None:
    book = Attendance(Terms(1))
    book.open_round(1, list(range(201)))
    for name in range(201):
        book.told(name, a_quote(left_j=1.0))
    book.choose()
    book.close_round()
    again = Attendance(Terms(1))
    restore(again, json.loads(json.dumps(told(book))))
    assert len(again.history[0].refusals) == 201


def test_what_one_client_says_leaves_a_book_that_can_be_read(tmp_path: Path) -> None:
    book = Attendance(Terms(2))
    book.open_round(1, [1, 2])
    for name, plugged_in in ((1, True), (2, False)):
        book.told(name, Quote(1, 1, MOST_J, MOST_J, plugged_in=plugged_in))
    for number in (1, 2):
        book.open_round(number, [1, 2])
        book.choose()
        book.answered(1, Quote(1, 1, MOST_J, MOST_J, spent_j=MOST_J))
        book.answered(2, None)
        book.close_round()
    register = Register(tmp_path / "book.json", book)
    register.keep()
    register.close()
    again = Attendance(Terms(2))
    Register(tmp_path / "book.json", again).close()
    assert (again.spent_j, again.entry(2).owed_j) == (MOST_J, MOST_J)
