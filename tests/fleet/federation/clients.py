"""Clients of a federation: quotes whose joules are known."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.rounds import Candidate
from ampere.fleet.member import Battery

STEPS, SAMPLES = 20, 320


def a_quote(per_sample_j: float = 0.1, left_j: float | None = None, **others: Any) -> Quote:
    """A round of 320 samples; the bound is a tenth above, the reserve 50 J."""
    energy_j = SAMPLES * per_sample_j
    battery = None if left_j is None else Battery(left_j + 50, left_j + 1000, 50)
    return Quote(SAMPLES, STEPS, energy_j, 1.1 * energy_j, battery=battery, **others)


def a_candidate(name: int, quote: Quote, **others: Any) -> Candidate:
    return Candidate(name, quote, quote.usable_j, **others)


def joules(most: float = 1e6) -> st.SearchStrategy[float]:
    return st.floats(1e-6, most)


@st.composite
def batteries(draw: st.DrawFn) -> Battery:
    capacity_j = draw(joules())
    share, reserve = draw(st.floats(0, 1)), draw(st.floats(0, 0.99))
    return Battery(share * capacity_j, capacity_j, reserve * capacity_j)


@st.composite
def quotes(draw: st.DrawFn) -> Quote:
    """Anything that `Quote` lets through."""
    energy_j = draw(st.none() | joules())
    bound_j = None if energy_j is None else energy_j * draw(st.floats(1, 3))
    return Quote(
        samples=draw(st.integers(1, 10**6)),
        steps=draw(st.integers(1, 10**6)),
        energy_j=energy_j,
        energy_j_bound=bound_j,
        fixed_j=0.0 if energy_j is None else energy_j * draw(st.floats(0, 0.9)),
        battery=draw(st.none() | batteries()),
        plugged_in=draw(st.booleans()),
        loss=draw(st.none() | st.floats(0, 1e6)),
    )
