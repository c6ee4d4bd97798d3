"""The book of rounds: who comes, goes, tells and keeps silent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ampere.fleet.federation.attendance import FORGOTTEN_AFTER, Attendance
from ampere.fleet.federation.rounds import Terms
from fleet.federation.clients import a_quote, quotes

ROUND_J = 1.1 * 32.0  # the bound of a round of `a_quote()`


def test_a_client_is_asked_once_and_again_some_rounds_after_it_had_too_little() -> None:
    book = Attendance(Terms(1), quotes_last=3)
    book.open_round(1, [7, 8])
    assert book.to_ask() == [7, 8]
    book.told(7, a_quote(left_j=1.0))
    book.told(8, a_quote())
    for number in (2, 3):
        book.open_round(number, [7, 8])
        assert book.to_ask() == []
    book.open_round(4, [7, 8])
    assert book.to_ask() == [7]
    book.told(7, a_quote(left_j=1.0, plugged_in=True))
    book.open_round(40, [7, 8])
    assert book.to_ask() == []


def test_who_comes_later_is_asked_and_who_is_gone_is_not_chosen() -> None:
    book = Attendance(Terms(3))
    book.open_round(1, [1, 2])
    for name in (1, 2):
        book.told(name, a_quote())
    book.open_round(2, [2, 3])
    assert book.to_ask() == [3]
    book.told(3, a_quote())
    assert sorted(each.name for each in book.choose().invitations) == [2, 3]


def test_silence_makes_a_client_rest_twice_as_long_each_time() -> None:
    book = Attendance(Terms(1))
    asked = []
    for number in range(1, 20):
        book.open_round(number, [1])
        if book.to_ask():
            asked.append(number)
            book.silent(1)
    assert asked == [1, 4, 9, 18]


def test_an_answer_ends_the_rest() -> None:
    book = Attendance(Terms(1))
    book.open_round(1, [1])
    book.silent(1)
    book.told(1, a_quote())
    book.open_round(2, [1])
    assert [each.name for each in book.choose().invitations] == [1]
    assert book.entry(1).silences == 0


def test_what_a_silent_client_may_have_spent_is_taken_off() -> None:
    book = Attendance(Terms(1), quotes_last=100)
    book.open_round(1, [1])
    book.told(1, a_quote(left_j=2.51 * ROUND_J))
    steps = []
    for number in (1, 2, 3, 4):
        book.open_round(number, [1])
        steps += [each.steps for each in book.choose().invitations]
    assert steps == [20, 20, 10]  # never told again: two rounds, half a round, nothing
    book.told(1, a_quote(left_j=2.51 * ROUND_J))
    book.open_round(5, [1])
    assert book.choose().invitations[0].steps == 20


def test_a_round_ends_with_who_came_back() -> None:
    book = Attendance(Terms(2))
    book.open_round(1, [1, 2, 3])
    book.told(1, a_quote(0.1, spent_j=1e9))  # nobody asked it to train: it does not count
    book.told(2, a_quote(0.2))
    book.told(3, a_quote(0.3, left_j=1.0))
    assert [each.name for each in book.choose().invitations] == [1, 2]
    assert book.awaits(1) and not book.awaits(3)
    book.answered(1, a_quote(0.1, spent_j=31.0))
    assert not book.awaits(1)
    ended = book.close_round()
    assert (ended.answered, ended.dropped) == ((1,), (2,))
    assert list(ended.refusals) == [3]
    assert book.history == [ended]
    assert book.spent_j == 31.0
    assert book.entry(2).silences == 1


def test_who_answers_without_a_quote_is_not_silent_but_owes() -> None:
    book = Attendance(Terms(1), quotes_last=100)
    book.open_round(1, [1])
    book.told(1, a_quote(left_j=1.5 * ROUND_J))
    book.choose()
    book.answered(1, None)
    assert book.close_round().dropped == ()
    assert book.entry(1).owed_j == ROUND_J


def test_who_was_not_seen_for_long_is_forgotten() -> None:
    book = Attendance(Terms(1))
    for number in range(1, FORGOTTEN_AFTER + 4):
        book.open_round(number, [number])
    assert len(book.entries) <= FORGOTTEN_AFTER + 2


@given(st.lists(quotes(), min_size=1, max_size=5), st.data())
def test_a_battery_is_never_promised_twice(said: list, data: st.DataObject) -> None:  # type: ignore[type-arg]
    """Whatever answers are lost: what is asked for since a quote fits into that quote."""
    book = Attendance(Terms(2), quotes_last=10**6)
    asked_j = [0.0] * len(said)
    for number in range(1, 8):
        book.open_round(number, range(len(said)))
        for name, quote in enumerate(said):
            if book.entry(name).quote is None or data.draw(st.booleans()):
                book.told(name, replace(quote, plugged_in=False))
                asked_j[name] = 0.0
        for each in book.choose().invitations:
            asked_j[each.name] += each.energy_j_bound or 0.0
        for name, quote in enumerate(said):
            usable_j = replace(quote, plugged_in=False).usable_j
            assert asked_j[name] <= usable_j * (1 + 1e-9) + 1e-9
