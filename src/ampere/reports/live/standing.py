"""Standing: how a run stands right now, in a word and a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ampere.core import units
from ampere.gates.story import End, Reason, Status, Verdict
from ampere.reports.live.amounts import Amounts
from ampere.reports.live.history import History

# A run that tells nothing for so long, and for so many times what it takes from look to look:
SILENT = (60.0, 10)  # may be dead
CRASHED = (600.0, 50)  # is; if it validates for that long, its next look says so


class Tone(str, Enum):
    """What a colour says."""

    CALM = "calm"
    GOOD = "good"
    CARE = "care"
    BAD = "bad"


@dataclass(frozen=True)
class Standing:
    """A word, its colour, and a sentence."""

    word: str
    tone: Tone
    sentence: str


_ENDS = {
    Reason.FINISHED: ("finished", Tone.GOOD),
    Reason.BUDGET: ("stopped", Tone.CARE),
    Reason.REFUSED: ("refused", Tone.CARE),
    Reason.FAILED: ("failed", Tone.BAD),
    Reason.LEFT: ("left", Tone.CARE),
}
_TONES = {
    Verdict.INSIDE: Tone.GOOD,
    Verdict.RISK: Tone.CARE,
    Verdict.OVER: Tone.BAD,
    Verdict.STOP: Tone.BAD,
    Verdict.FREE: Tone.CALM,
    Verdict.UNGATED: Tone.BAD,
}


def standing_of(history: History, silence_s: float, obstacle: str, amounts: Amounts) -> Standing:
    """Say how a run stands.

    Args:
        history: What is known of it.
        silence_s: How long it has told nothing.
        obstacle: Why its file cannot be read; empty if it can.
        amounts: In which unit joules are told.
    """
    if history.end is not None:
        word, tone = _ENDS[history.end.reason]
        return Standing(word, tone, _end(history, history.end, amounts))
    if history.provenance is None:
        why = obstacle or "it has told nothing yet"
        damage = f"; {history.first_damage}" if history.damaged else ""
        return Standing("waiting", Tone.CALM, f"waits for its first line: {why}{damage}")
    if _is_longer(silence_s, CRASHED, history):
        text = f"it crashed, or was killed: no end, and {_silent(history, silence_s, amounts)}"
        return Standing("crashed", Tone.BAD, text)
    if _is_longer(silence_s, SILENT, history):
        return Standing("silent", Tone.CARE, _silent(history, silence_s, amounts))
    if history.status is None:
        return Standing("running", Tone.CALM, "has begun: no forecast yet")
    tone = _TONES[history.status.verdict]
    return Standing("running", tone, _running(history, history.status, amounts))


def _running(history: History, status: Status, amounts: Amounts) -> str:
    if status.verdict is Verdict.UNGATED:
        return "nobody watches: the meter failed, the training goes on"
    if status.verdict is Verdict.STOP:
        return f"stops now, at {_of_budget(history, status.spent_j, amounts)}"
    if status.forecast_j is None:
        return f"no forecast yet, {amounts.text(status.spent_j)} spent"
    ends = f"would end at {_of_budget(history, status.forecast_j, amounts)}"
    if status.stops_at is not None and history.budget_j is not None:
        return f"stops at {_step(status.stops_at, history.steps)}; {ends}"
    if status.verdict is Verdict.RISK:
        return f"{ends}, and may exceed it"
    return ends


def _end(history: History, end: End, amounts: Amounts) -> str:
    if end.reason is Reason.REFUSED:
        return "refused before it began"
    took = _of_budget(history, end.spent_j, amounts)
    step = _step(end.step, history.steps)
    if end.reason is Reason.FINISHED:
        return f"took {took}"
    if end.reason is Reason.BUDGET:
        return f"stopped at its budget: {took}, {step}"
    if end.reason is Reason.FAILED:
        return f"the training failed at {step}, {took}"
    return f"ended before its steps were done, at {step}, {took}"


def _silent(history: History, silence_s: float, amounts: Amounts) -> str:
    took = _of_budget(history, history.spent_j, amounts)
    seen = f"last seen at {_step(history.step, history.steps)}, {took}"
    return f"no word for {_about(silence_s)}; {seen}"


def _is_longer(silence_s: float, limits: tuple[float, int], history: History) -> bool:
    least_s, gaps = limits
    return silence_s > max(least_s, gaps * history.usual_gap_s)


def _of_budget(history: History, energy_j: float, amounts: Amounts) -> str:
    if history.budget_j is None:
        return amounts.text(energy_j)
    return f"{amounts.number(energy_j)} of {amounts.text(history.budget_j)}"


def _step(step: int, steps: int | None) -> str:
    of_all = "" if steps is None else f" of {units.number(steps)}"
    return f"step {units.number(step)}{of_all}"


def _about(time_s: float) -> str:
    """Minutes, hours or days: a page need not change every second."""
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if time_s >= size:
            return units.plural(int(time_s // size), name)
    return "a moment"
