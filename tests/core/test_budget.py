"""Budgets: as a user writes them, and what they leave a step or a job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.budget import JOULES, UNITS, Budget, parse_budget
from ampere.core.rates import Rate
from ampere.errors import DataError

FULL_J = 4e-3


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("50%", Budget(50, "%")),
        (" 12.5 % ", Budget(12.5, "%")),
        ("150%", Budget(150, "%")),
        ("2J/step", Budget(2, "J/step")),
        ("1.5 mJ/step", Budget(1.5, "mJ/step")),
        ("1.5mj / Step", Budget(1.5, "mJ/step")),
        ("3 uJ/step", Budget(3, "µJ/step")),
        ("3 µJ/step", Budget(3, "µJ/step")),
        ("3 \N{GREEK SMALL LETTER MU}J", Budget(3, "µJ")),
        ("800J", Budget(800, "J")),
        ("800 j", Budget(800, "J")),
        ("5 Wh", Budget(5, "Wh")),
        ("5wh", Budget(5, "Wh")),
        ("2.5kJ", Budget(2.5, "kJ")),
        ("1 mJ", Budget(1, "mJ")),
        ("1 MJ", Budget(1, "MJ")),
        ("300 mWh", Budget(300, "mWh")),
        ("0.2 kWh", Budget(0.2, "kWh")),
        (".5e3 J", Budget(500, "J")),
        ("30% battery", Budget(30, "% battery")),
        ("30 % of the Battery", Budget(30, "% battery")),
        ("0.5kgCO2e", Budget(0.5, "kgCO2e")),
        ("500 g CO2", Budget(500, "gCO2e")),
        ("500gCO2eq", Budget(500, "gCO2e")),
        ("500 gCO₂-eq", Budget(500, "gCO2e")),
        ("2 tco2e", Budget(2, "tCO2e")),
        ("1EUR", Budget(1, "EUR")),
        ("0.50 usd", Budget(0.5, "USD")),
        ("$1", Budget(1, "USD")),
        ("€ 1.5", Budget(1.5, "EUR")),
        ("3 £", Budget(3, "GBP")),
    ],
)
def test_reads_shares_steps_and_jobs(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("text", "joules"),
    [
        ("50%", 2e-3),
        ("150%", 6e-3),
        ("1.5 mJ/step", 1.5e-3),
        ("2 uJ/step", 2e-6),
        ("1 mWh/step", 3.6),
        ("800J", 8.0),
        ("2.5kJ", 25.0),
        ("1 MJ", 1e4),
        ("5 Wh", 180.0),
        ("2 kWh", 72e3),
    ],
)
def test_what_a_step_may_take(text: str, joules: float) -> None:
    assert parse_budget(text).per_step(FULL_J, 100) == pytest.approx(joules, rel=1e-12)


RATES: dict[str, Any] = {
    "battery_j": 1000.0,
    "carbon": Rate(50.0, "gCO2e"),
    "price": Rate(0.25, "EUR"),
}


@pytest.mark.parametrize(
    ("text", "joules"),
    [
        ("50%", 400.0),
        ("2J/step", 20.0),
        ("5 Wh", 18000.0),
        ("30% battery", 300.0),
        ("25 gCO2e", 1.8e6),
        ("0.1 kgCO2", 7.2e6),
        ("0.05 EUR", 0.72e6),
    ],
)
def test_what_a_job_may_take(text: str, joules: float) -> None:
    found = parse_budget(text).joules(full_j=800.0, steps=10, **RATES)
    assert found == pytest.approx(joules, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("50%", "what the full model takes: give a model and --profile FILE"),
        ("2J/step", "is for a step: give the job's length"),
        ("30% battery", "what the battery holds: give --battery-wh"),
        ("1 kgCO2e", "what a kilowatt-hour emits: give --carbon FR"),
        ("1 USD", "what a kilowatt-hour costs: give --price 0.30USD/kWh"),
    ],
)
def test_what_is_missing_is_asked_for_in_a_line(text: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_budget(text).joules()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_currencies_do_not_mix() -> None:
    with pytest.raises(DataError, match=r"in USD, the price in EUR: .* the same currency"):
        parse_budget("$1").joules(price=RATES["price"])


def test_what_costs_nothing_limits_nothing() -> None:
    with pytest.raises(DataError, match=r"no amount of EUR limits a job: write .* joules"):
        parse_budget("1 EUR").joules(price=Rate(-0.01, "EUR"))


def test_a_converted_budget_is_called_as_it_was_written() -> None:
    settled = parse_budget("25gCO2e").settled(carbon=RATES["carbon"])
    assert settled == Budget(1.8e6, "J")
    assert str(settled) == "25 gCO2e"
    assert settled.per_step(FULL_J, 100) == 1.8e4
    for text in ("50%", "2 J/step", "5 Wh"):
        assert parse_budget(text).settled() == parse_budget(text)


def test_only_a_job_needs_its_length() -> None:
    assert parse_budget("50%").per_step(FULL_J, None) == FULL_J / 2
    assert parse_budget("2J/step").per_step(FULL_J, None) == 2.0
    with pytest.raises(DataError, match=r"5 Wh is for a whole job.*--steps, or --epochs with --sa"):
        parse_budget("5 Wh").per_step(FULL_J, None)
    with pytest.raises(DataError, match="0 steps"):
        parse_budget("5 Wh").per_step(FULL_J, 0)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "50", "%", "J", "/step", "fifty %", "50%%", "50 % 2J", "5 Wh/epoch", "50%/step"),
        *("-5J", "-50%", "0J", "0%", "0.0 mJ/step", "nan J", "inf%", "nan", "1e999 J", "1e-999 J"),
        *(
            "1e308 kWh",
            "5e-324 mJ",
            "5 W",
            "5 h",
            "5 KJ",
            "5 MWh",
            "5 GJ",
            "5 uWh",
            "5 cal",
            "1,5 J",
        ),
        *("5 kg", "5 CO2e", "5 mgCO2e", "101% battery", "0% battery", "30 battery", "5 XYZ", "$"),
        *(
            "$1 EUR",
            "$1$",
            "EUR 1",
            "1 ct",
            "-1 EUR",
            "0 EUR",
            "1e999 EUR",
            "CO2",
            "3% battery/step",
        ),
        *("٥ J", "5 J/steps", "5\nJ/step/step", "0x5 J", "1_000 J"),
    ],
)
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(DataError, match=r"50%, .* 2J/step .* 5 Wh") as caught:
        parse_budget(text)
    assert "\n" not in str(caught.value)


def test_a_prefix_has_its_case() -> None:
    assert parse_budget("1 MJ").per_step(FULL_J, 1) == 1e9 * parse_budget("1 mJ").per_step(
        FULL_J, 1
    )


@pytest.mark.parametrize(("amount", "unit"), [(5, "cal"), (5, "j"), (0, "J"), (float("nan"), "%")])
def test_no_such_budget_can_be_made(amount: float, unit: str) -> None:
    with pytest.raises(DataError, match="50%"):
        Budget(amount, unit)


def test_writes_what_a_user_would() -> None:
    texts = ["50%", "12.5%", "1.5 mJ/step", "800 J", "5 Wh", "3 µJ", "30% battery", "0.5 kgCO2e"]
    texts += ["1 EUR", "0.5 USD"]
    assert [str(parse_budget(text)) for text in texts] == texts


@given(st.floats(1e-200, 1e200) | st.integers(1, 10**15), st.sampled_from(UNITS))
def test_text_round_trips(amount: float, unit: str) -> None:
    if unit == "% battery":
        amount = min(amount, 100)
    budget = Budget(amount, unit)
    assert parse_budget(str(budget)) == budget


@given(st.text(alphabet="0123456789.eE+- %/µumkgMJjWwhstepnCO2batrUD$€", max_size=12))
def test_no_text_is_read_as_nothing_or_crashes(text: str) -> None:
    try:
        budget = parse_budget(text)
    except DataError:
        return
    assert budget.unit in UNITS
    rates = {**RATES, "price": Rate(0.25, budget.unit)}
    assert 0 < budget.joules(full_j=1.0, steps=1, **rates) < float("inf")


@given(st.floats(1e-3, 1e6), st.sampled_from(sorted(JOULES)), st.integers(1, 10**9))
def test_a_job_is_its_steps(amount: float, unit: str, steps: int) -> None:
    job, step = Budget(amount, unit), Budget(amount, f"{unit}/step")
    assert steps * job.per_step(FULL_J, steps) == pytest.approx(step.per_step(FULL_J, None))
