"""Rounds: who trains next."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import DataError
from ampere.fleet.federation.attendance import Attendance
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.rounds import Candidate, Terms, choose
from ampere.fleet.member import Battery
from fleet.federation.clients import STEPS, a_candidate, a_quote, quotes


def names(candidates: list[Candidate], terms: Terms) -> list[int]:
    return [each.name for each in choose(candidates, terms).invitations]


def test_the_cheapest_samples_go_first() -> None:
    costs = {1: 0.3, 2: 0.1, 3: 0.2}
    candidates = [a_candidate(name, a_quote(cost)) for name, cost in costs.items()]
    assert names(candidates, Terms(2)) == [2, 3]


def test_it_is_the_sample_that_counts_not_the_round() -> None:
    long = Quote(samples=1000, steps=100, energy_j=50.0, energy_j_bound=55.0)
    short = Quote(samples=100, steps=10, energy_j=10.0, energy_j_bound=11.0)
    assert names([a_candidate(1, short), a_candidate(2, long)], Terms(1)) == [2]


def test_whole_part_and_not_at_all() -> None:
    round_j = 1.1 * 32.0
    candidates = [
        a_candidate(1, a_quote(left_j=round_j)),
        a_candidate(2, a_quote(left_j=0.51 * round_j)),
        a_candidate(3, a_quote(left_j=0.2 * round_j)),
    ]
    choice = choose(candidates, Terms(3, least_share=0.25))
    assert [(each.name, each.steps, each.whole) for each in choice.invitations] == [
        (1, STEPS, True),
        (2, STEPS // 2, False),
    ]
    assert choice.refusals == {
        3: "a round may take 35.2 J, 7.04 J are left above its reserve",
    }


def test_who_has_no_profile_trains_at_a_socket_only_and_last() -> None:
    unknown = Quote(320, STEPS)
    on_battery = replace(unknown, battery=Battery(1e6, 1e6))
    candidates = [a_candidate(1, unknown), a_candidate(2, on_battery), a_candidate(3, a_quote(9.0))]
    choice = choose(candidates, Terms(3))
    assert [each.name for each in choice.invitations] == [3, 1]
    assert "no profile" in choice.refusals[2]


def test_who_waited_too_long_is_preferred_the_longest_first() -> None:
    candidates = [
        a_candidate(1, a_quote(0.1)),
        a_candidate(2, a_quote(0.2), waited=3),
        a_candidate(3, a_quote(0.3), waited=4),
    ]
    assert names(candidates, Terms(2, patience=3)) == [3, 2]
    assert names(candidates, Terms(2, patience=5)) == [1, 2]


def test_nobody_takes_part_in_more_than_its_share() -> None:
    half = Terms(1, most_share=0.5)
    cheap = a_candidate(1, a_quote(0.1), taken=2, known=4)
    assert names([cheap, a_candidate(2, a_quote(0.2))], half) == [2]
    assert names([replace(cheap, known=5), a_candidate(2, a_quote(0.2))], half) == [1]


def test_a_round_has_an_end() -> None:
    slow = a_quote(time_s=8.0, time_s_bound=10.0)
    choice = choose([a_candidate(1, slow)], Terms(1, round_s=5.0))
    assert choice.invitations[0].steps == STEPS // 2
    refused = choose([a_candidate(1, slow)], Terms(1, round_s=1.0))
    assert refused.refusals == {1: "a round may take 10.0 s"}


def test_badly_learned_samples_may_be_worth_joules() -> None:
    learned, unlearned = a_quote(0.1, loss=0.1), a_quote(0.15, loss=0.4)
    candidates = [a_candidate(1, learned), a_candidate(2, unlearned)]
    assert names(candidates, Terms(1)) == [1]
    assert names(candidates, Terms(1, utility=1.0)) == [2]


def test_a_loss_that_is_claimed_counts_only_so_much() -> None:
    honest = [a_candidate(name, a_quote(0.1, loss=1.0)) for name in (1, 2, 3)]
    liar = a_candidate(4, a_quote(0.4, loss=1e6))
    assert 4 not in names([*honest, liar], Terms(3, utility=1.0))


@pytest.mark.parametrize(
    "terms",
    [
        {"clients": 0},
        {"clients": 1, "least_share": 0.0},
        {"clients": 1, "most_share": 1.5},
        {"clients": 1, "patience": 0},
        {"clients": 1, "round_s": math.nan},
        {"clients": 1, "utility": -1.0},
    ],
)
def test_terms_that_choose_nobody_are_refused(terms: dict[str, float]) -> None:
    with pytest.raises(DataError):
        Terms(**terms)  # type: ignore[arg-type]


some_terms = st.builds(
    Terms,
    clients=st.integers(1, 4),
    least_share=st.floats(0.05, 1.0),
    most_share=st.floats(0.2, 1.0),
    utility=st.floats(0, 2),
)


@given(st.lists(quotes(), max_size=8), some_terms, st.randoms(use_true_random=False))
def test_nobody_is_asked_for_more_than_it_has(
    said: list[Quote], terms: Terms, rng: random.Random
) -> None:
    candidates = [a_candidate(name, quote) for name, quote in enumerate(said)]
    choice = choose(candidates, terms)
    invited = [each.name for each in choice.invitations]
    assert len(invited) == len(set(invited)) <= terms.clients
    assert not set(invited) & set(choice.refusals)
    assert len(invited) == min(terms.clients, len(said) - len(choice.refusals))
    for each in choice.invitations:
        quote = said[each.name]
        assert terms.least_share * quote.steps <= each.steps <= quote.steps
        if quote.usable_j < math.inf:
            assert each.energy_j_bound is not None and each.energy_j_bound <= quote.usable_j
    rng.shuffle(candidates)
    assert choose(candidates, terms) == choice


@given(st.lists(quotes(), min_size=1, max_size=9), st.integers(1, 4), st.integers(1, 6))
def test_whatever_others_claim_each_that_can_takes_part_within_a_few_rounds(
    said: list[Quote], clients: int, patience: int
) -> None:
    """At sockets: nothing but fairness decides whether somebody takes part at all."""
    book = Attendance(Terms(clients, patience=patience), quotes_last=10**6)
    last = dict.fromkeys(range(len(said)), 0)
    longest = patience + -(-len(said) // clients)
    for number in range(1, 3 * longest + 2):
        book.open_round(number, last)
        for name, quote in enumerate(said):
            book.told(name, replace(quote, plugged_in=True))
        for each in book.choose().invitations:
            last[each.name] = number
        assert all(number - when <= longest for when in last.values())


@given(st.lists(quotes(), min_size=1, max_size=6), st.floats(0.2, 1.0))
def test_shares_hold_over_many_rounds(said: list[Quote], most_share: float) -> None:
    book = Attendance(Terms(2, most_share=most_share), quotes_last=10**6)
    taken = [0] * len(said)
    for number in range(1, 20):
        book.open_round(number, range(len(said)))
        for name, quote in enumerate(said):
            book.told(name, quote)
        for each in book.choose().invitations:
            taken[each.name] += 1
        assert max(taken) <= math.ceil(most_share * number)
