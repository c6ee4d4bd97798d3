"""How a run stands, in a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.gates.story import Event, Reason, Verdict
from ampere.reports.live.amounts import Amounts, short
from ampere.reports.live.history import History
from ampere.reports.live.standing import Tone, standing_of
from told_runs import WH, ended, looks, started

LOOKS = list(looks(until=1000))
LAST = LOOKS[-1]
OVER = replace(LAST, verdict=Verdict.OVER, forecast_j=6.1 * WH, stops_at=1240)


def said(*events: Event, silence_s: float = 1.0, obstacle: str = "") -> tuple[str, Tone, str]:
    history = History()
    for event in events:
        history.learn(event)
    standing = standing_of(history, silence_s, obstacle, Amounts.of([history]))
    return standing.word, standing.tone, standing.sentence


@pytest.mark.parametrize(
    ("events", "word", "tone", "sentence"),
    [
        ([], "waiting", Tone.CALM, "waits for its first line: it has told nothing yet"),
        ([started()], "running", Tone.CALM, "has begun: no forecast yet"),
        ([started(), LAST], "running", Tone.GOOD, "would end at 4.77 of 5 Wh"),
        ([LAST], "running", Tone.GOOD, "would end at 4.77 of 5 Wh"),
        (
            [started(), replace(LAST, verdict=Verdict.RISK)],
            "running",
            Tone.CARE,
            "would end at 4.77 of 5 Wh, and may exceed it",
        ),
        (
            [started(), OVER],
            "running",
            Tone.BAD,
            "stops at step 1,240 of 2,000; would end at 6.1 of 5 Wh",
        ),
        (
            [started(), replace(OVER, stops_at=None)],
            "running",
            Tone.BAD,
            "would end at 6.1 of 5 Wh",
        ),
        (
            [started(), replace(LAST, verdict=Verdict.STOP, spent_j=4.93 * WH)],
            "running",
            Tone.BAD,
            "stops now, at 4.93 of 5 Wh",
        ),
        (
            [started(budget_j=None, budget=""), replace(LAST, verdict=Verdict.FREE)],
            "running",
            Tone.CALM,
            "would end at 4.77 Wh",
        ),
        (
            [started(), replace(LAST, forecast_j=None, forecast_j_interval=None)],
            "running",
            Tone.GOOD,
            "no forecast yet, 2.36 Wh spent",
        ),
        (
            [started(), replace(LAST, verdict=Verdict.UNGATED)],
            "running",
            Tone.BAD,
            "nobody watches: the meter failed, the training goes on",
        ),
        (
            [started(), LAST, ended(LAST)],
            "finished",
            Tone.GOOD,
            "took 2.36 of 5 Wh",
        ),
        (
            [started(), LAST, ended(LAST, Reason.BUDGET)],
            "stopped",
            Tone.CARE,
            "stopped at its budget: 2.36 of 5 Wh, step 1,000 of 2,000",
        ),
        (
            [started(), ended(LAST, Reason.REFUSED, step=0, spent_j=0.0)],
            "refused",
            Tone.CARE,
            "refused before it began",
        ),
        (
            [started(), LAST, ended(LAST, Reason.FAILED)],
            "failed",
            Tone.BAD,
            "the training failed at step 1,000 of 2,000, 2.36 of 5 Wh",
        ),
        (
            [started(), LAST, ended(LAST, Reason.LEFT)],
            "left",
            Tone.CARE,
            "ended before its steps were done, at step 1,000 of 2,000, 2.36 of 5 Wh",
        ),
    ],
)
def test_a_sentence_for_everything(
    events: list[Event], word: str, tone: Tone, sentence: str
) -> None:
    assert said(*events) == (word, tone, sentence)


def test_silence_is_judged_by_the_usual_pace() -> None:
    run = [started(), *LOOKS]  # a look every nine seconds
    assert said(*run, silence_s=85)[0] == "running"
    assert said(*run, silence_s=100) == (
        "silent",
        Tone.CARE,
        "no word for 1 minute; last seen at step 1,000 of 2,000, 2.36 of 5 Wh",
    )
    assert said(*run, silence_s=7300) == (
        "crashed",
        Tone.BAD,
        "it crashed, or was killed: no end, and no word for 2 hours;"
        " last seen at step 1,000 of 2,000, 2.36 of 5 Wh",
    )
    assert said(*run, ended(LAST), silence_s=1e9)[0] == "finished"
    assert said(started(), silence_s=61)[0] == "silent"


def test_why_it_waits_is_said() -> None:
    assert said(obstacle="it is no file")[2] == "waits for its first line: it is no file"


@pytest.mark.parametrize(
    ("budget", "budget_j", "shown"),
    [
        ("5Wh", 18000.0, "4.72 Wh"),
        ("18kJ", 18000.0, "17 kJ"),
        ("30% battery", 180_000.0, "4.72 Wh"),
        ("0.5kgCO2e", 18e6, "0.00472 kWh"),
        ("", None, "4.72 Wh"),
    ],
)
def test_joules_in_the_unit_of_the_budget(budget: str, budget_j: float | None, shown: str) -> None:
    history = History()
    history.learn(started(budget=budget, budget_j=budget_j))
    history.learn(replace(LAST, forecast_j=17000.0, forecast_j_interval=None, spent_j=1.0))
    assert Amounts.of([history]).text(17000.0) == shown


def test_what_was_spent_has_its_own_unit() -> None:
    """A budget that is not drawn does not choose it: 0.0442 kJ."""
    history = History()
    history.learn(started(budget="20kJ", budget_j=20e3))
    history.learn(replace(LAST, spent_j=44.2))
    assert Amounts.spent([history]).text(history.spent_j) == "44.2 J"


def test_numbers_are_short() -> None:
    told = [short(value) for value in (0.0, 1e-9, 0.0123456, 4.8, 99.96, 125.4, 123456.0)]
    assert told == ["0", "<0.001", "0.0123", "4.8", "100", "125", "123,456"]
