"""The page of several runs side by side: how each stands, and what they have spent over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ampere.core import units
from ampere.reports.live.amounts import Amounts
from ampere.reports.live.budget_bar import budget_bar
from ampere.reports.live.page import LivePage, Panel
from ampere.reports.live.places import MOST_RUNS
from ampere.reports.live.run_page import origin_of
from ampere.reports.live.standing import Standing, Tone
from ampere.reports.live.watch import Run
from ampere.reports.parts import Line, Part, Plot, Section, Text

MOST_LINES = 8  # in one picture; the colours of live.js
LETTERS = 40  # of a run's name beside others
_URGENT = (Tone.BAD, Tone.CARE, Tone.GOOD, Tone.CALM)


def overview_page(runs: Sequence[Run], now: float, more: bool, linked: bool = True) -> LivePage:
    """Several runs at a moment.

    Args:
        runs: All of them, in their order.
        now: Seconds since 1970.
        more: There are even more, which are not shown.
        linked: Each has a page of its own.
    """
    standings = [run.standing(now) for run in runs]
    panels = [_panel(run, standing, linked) for run, standing in zip(runs, standings, strict=True)]
    begun = [run for run in runs if run.history.provenance is not None]
    if begun:
        panels.append(Panel("together", Section("Side by side", tuple(_together(begun)))))
    left_out = f" The first {MOST_RUNS} are shown: name fewer folders." if more else ""
    return LivePage(
        title=units.plural(len(runs), "run") if runs else "No runs",
        lead=f"Each from the lines that its gate appends.{left_out}",
        origin=_origins(begun),
        standings=_summary(standings),
        highlights=(),
        panels=tuple(panels),
    )


def _panel(run: Run, standing: Standing, linked: bool) -> Panel:
    parts: list[Part] = []
    if run.history.provenance is not None:
        origin = origin_of(run.history)
        parts.append(budget_bar(run.history, Amounts.of([run.history]), origin))
    if run.history.damaged:
        lines = units.plural(run.history.damaged, "line")
        parts.append(Text(f"{lines} cannot be read: {run.history.first_damage}", warning=True))
    key = f"run-{run.place.key}"
    label = "" if run.name == run.place.label else f" · {run.place.label}"
    section = Section(f"{run.name}{label}", tuple(parts), half=True)
    return Panel(key, section, f"/run/{run.place.key}" if linked else "", standing)


def _together(runs: Sequence[Run]) -> list[Part]:
    shown = runs[:MOST_LINES]
    amounts = Amounts.spent(run.history for run in shown)
    lines = []
    for number, run in enumerate(shown):
        points = run.history.curve.points
        spent = [point.spent_j / amounts.size_j for point in points]
        name = run.name if len(run.name) <= LETTERS else f"{run.name[: LETTERS - 1]}…"
        lines.append(Line(name, f"run{number}", [point.time_s for point in points], spent))
    caption = f"{amounts.unit} spent over the running time. {_origins(shown)}"
    parts: list[Part] = [Plot("together", amounts.unit, lines, caption)]
    if len(runs) > len(shown):
        parts.append(Text(f"Of {len(runs)} runs the first {len(shown)} are drawn."))
    return parts


def _origins(runs: Sequence[Run]) -> str:
    """What the joules are; of different runs they may be different things."""
    origins = sorted({run.history.provenance.origin for run in runs if run.history.provenance})
    if not origins:
        return "No joules yet."
    if len(origins) == 1:
        return f"Joules are {origins[0]}."
    return f"Joules differ: some are {'; some are '.join(origins)}."


def _summary(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """How many stand how, what needs a look first."""
    counted = Counter(each.word for each in standings)
    worst = {
        word: min((each.tone for each in standings if each.word == word), key=_URGENT.index)
        for word in counted
    }
    ordered = sorted(counted, key=lambda word: (_URGENT.index(worst[word]), word))
    return tuple(Standing(f"{counted[word]} {word}", worst[word], "") for word in ordered)
