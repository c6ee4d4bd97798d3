"""Quotes: what fits into a battery, and what nobody believes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import DataError
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.member import Battery
from ampere.meters.base import Provenance
from fleet.federation.clients import a_quote, joules, quotes

FULL: dict[str, Any] = {
    "samples": 320,
    "steps": 20,
    "energy_j": 40.0,
    "energy_j_bound": 50.0,
    "time_s": 4.0,
    "time_s_bound": 5.0,
    "fixed_j": 10.0,
    "battery_j": 900.0,
    "capacity_j": 4000.0,
    "reserve_j": 800.0,
    "plugged_in": False,
    "loss": 0.5,
    "spent_j": 38.0,
    "provenance": "simulated",
}


def test_it_is_written_and_read() -> None:
    quote = Quote.from_json(FULL)
    assert quote.battery == Battery(900.0, 4000.0, 800.0)
    assert quote.provenance is Provenance.SIMULATED
    assert quote.to_json() == FULL


@given(quotes())
def test_whatever_may_be_is_read_as_it_was_written(quote: Quote) -> None:
    assert Quote.from_json(quote.to_json()) == quote


def test_a_part_of_a_round_keeps_what_is_fixed() -> None:
    quote = Quote.from_json(FULL)
    assert quote.usable_j == 100
    assert quote.energy_j_bound_of(10) == 10 + 20
    assert quote.energy_j_of(10) == 10 + 15
    assert quote.steps_within(50) == 20
    assert quote.steps_within(30) == 10
    assert quote.steps_within(29.9) == 9
    assert quote.steps_within(10) == 0
    assert quote.steps_within(math.inf, round_s=2.5) == 10


def test_at_a_socket_everything_fits() -> None:
    charged = a_quote(left_j=1.0, plugged_in=True)
    assert charged.usable_j == math.inf
    assert charged.steps_within(charged.usable_j) == charged.steps
    assert a_quote(left_j=1.0).steps_within(1.0) == 0


def test_joules_that_nobody_knows_never_fit_into_a_battery() -> None:
    quote = Quote(320, 20, battery=Battery(1e9, 1e9))
    assert quote.steps_within(quote.usable_j) == 0
    assert Quote(320, 20).steps_within(math.inf) == 20


@given(quotes(), joules())
def test_what_fits_stays_inside_and_one_step_more_does_not(quote: Quote, usable_j: float) -> None:
    steps = quote.steps_within(usable_j)
    assert 0 <= steps <= quote.steps
    if steps:
        bound_j = quote.energy_j_bound_of(steps)
        assert bound_j is not None and bound_j <= usable_j
    if quote.energy_j_bound is not None and steps < quote.steps:
        more_j = quote.energy_j_bound_of(steps + 1)
        assert more_j is not None and more_j > usable_j * (1 - 1e-9)


NONSENSE: list[tuple[str, Any]] = [
    ("energy_j", math.nan),
    ("energy_j", -1.0),
    ("energy_j", 0.0),
    ("energy_j", math.inf),
    ("energy_j", "40"),
    ("energy_j", b"40"),
    ("energy_j", [40.0]),
    ("energy_j", True),
    ("energy_j", 60.0),  # above its bound
    ("energy_j", None),  # a bound alone
    ("energy_j_bound", 1e13),
    ("time_s_bound", 1e8),
    ("fixed_j", 45.0),
    ("samples", 0),
    ("samples", 10**10),
    ("samples", None),
    ("steps", 2.5),
    ("battery_j", 5000.0),  # more than it holds
    ("battery_j", -1.0),
    ("capacity_j", None),
    ("reserve_j", 4000.0),
    ("plugged_in", "yes"),
    ("loss", math.nan),
    ("spent_j", -1.0),
    ("provenance", "__import__('os')"),
]


@pytest.mark.parametrize(("name", "value"), NONSENSE)
def test_numbers_that_cannot_be_are_refused_in_one_line(name: str, value: Any) -> None:
    with pytest.raises(DataError) as refusal:
        Quote.from_json({**FULL, name: value})
    assert "\n" not in str(refusal.value)


@given(
    st.dictionaries(
        st.sampled_from(list(FULL)),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    )
)
def test_garbage_is_a_refusal_or_a_quote_that_can_be(row: dict[str, Any]) -> None:
    try:
        quote = Quote.from_json({**FULL, **row})
    except DataError:
        return
    assert quote.usable_j >= 0
    assert 0 <= quote.steps_within(100.0) <= quote.steps
    if quote.energy_j is not None and quote.energy_j_bound is not None:
        assert 0 < quote.energy_j <= quote.energy_j_bound < math.inf
