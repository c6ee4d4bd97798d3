"""The page of one run: how it stands, its budget, its curves, its layers, what happened."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ampere.core import units
from ampere.gates import story
from ampere.reports.charts import Bar, bars
from ampere.reports.labels import moment
from ampere.reports.live.amounts import Amounts
from ampere.reports.live.budget_bar import budget_bar
from ampere.reports.live.curve import Point
from ampere.reports.live.footprint import footprint
from ampere.reports.live.history import History
from ampere.reports.live.page import LivePage, Panel
from ampere.reports.live.watch import Run
from ampere.reports.parts import Facts, Figure, Line, Part, Plot, Section, Table, Text

MOST_LAYERS = 12  # that get a bar of their own
FAR = 3  # times the budget, above which live.js draws nothing
DATE = len("2026-11-18 ")


def run_page(run: Run, now: float, home: bool) -> LivePage:
    """A run at a moment (seconds since 1970); `home` if there is a page of all runs."""
    history = run.history
    amounts = Amounts.of([history])
    return LivePage(
        title=run.name,
        lead=_lead(run),
        origin=origin_of(history),
        standings=(run.standing(now, amounts),),
        highlights=tuple(_highlights(history, amounts)),
        panels=_filled(list(_panels(run, amounts))),
        home=home,
    )


def origin_of(history: History) -> str:
    """What the joules of a run are; it stands beside all of them."""
    if history.provenance is None:
        return "No joules yet."
    return f"Joules are {history.provenance.origin}."


def _lead(run: Run) -> str:
    start = run.history.start
    told = [run.place.label] if run.place.label != run.name else []
    if start:
        told += [start.device] if start.device else []
        told.append(f"started {_to_the_second(start.time)}")
    return " · ".join(told)


def _highlights(history: History, amounts: Amounts) -> Iterator[tuple[str, str]]:
    if history.provenance is None:
        return
    budget_j = history.budget_j
    share = f", {units.percent(history.spent_j / budget_j)} of the budget" if budget_j else ""
    yield amounts.text(history.spent_j), f"spent{share}"
    status = history.status if history.end is None else None
    if status and status.forecast_j is not None:
        limits = status.forecast_j_interval
        within = f"; 90 % interval {amounts.interval(limits)}" if limits else ""
        yield amounts.text(status.forecast_j), f"forecast in all{within}"
    if status and status.power_w is not None:
        yield units.watts(status.power_w), "now"
    steps = f"of {units.plural(history.steps, 'step')}" if history.steps else "steps, end unknown"
    yield units.number(history.step), steps
    yield units.seconds(history.curve.end_s), f"running time{_time_left(history)}"
    yield from footprint(history)


def _time_left(history: History) -> str:
    status = history.status
    ends = [history.steps, status.stops_at if status else None]
    last = min((step for step in ends if step is not None), default=0)
    if history.end is not None or not 0 < history.step < last:
        return ""
    left_s = history.curve.end_s * (last - history.step) / history.step
    return f"; about {units.seconds(left_s)} left, at the pace so far"


def _panels(run: Run, amounts: Amounts) -> Iterator[Panel]:
    history = run.history
    if problems := tuple(_problems(run)):
        yield Panel("problems", Section("Read with care", problems))
    if history.provenance is not None:
        origin = origin_of(history)
        yield Panel("budget", Section("Budget", (budget_bar(history, amounts, origin),)))
        points = history.curve.points
        yield Panel("spent", Section("Spent over time", (_spent(history, amounts),), half=True))
        if any(point.power_w is not None for point in points):
            yield Panel("watts", Section("Watts over time", (_watts(points, origin),), half=True))
    start = history.start
    if start and start.layers:
        yield Panel("layers", Section("Joules per layer", (_layers(start),), half=True))
    if history.notes:
        happened = Section("What happened", tuple(_happened(history)), half=True)
        yield Panel("notes", happened)
    yield Panel("run", Section("The run", (Facts(list(_facts(run, amounts))),)))


def _filled(panels: list[Panel]) -> tuple[Panel, ...]:
    """Two halves stand side by side: where one would stand alone, the last takes the room."""
    odd = sum(panel.section.half for panel in panels) % 2 == 1
    last = panels[-1]
    return (*panels[:-1], replace(last, section=replace(last.section, half=odd)))


def _problems(run: Run) -> Iterator[Part]:
    if run.history.damaged:
        lines = units.plural(run.history.damaged, "line")
        yield Text(f"{lines} cannot be read and left out; {run.history.first_damage}", warning=True)
    if run.obstacle and run.history.provenance is not None:
        yield Text(f"No more news: {run.obstacle}.", warning=True)


def _spent(history: History, amounts: Amounts) -> Plot:
    points = history.curve.points
    time_s = [point.time_s for point in points]

    def scaled(values: Sequence[float | None]) -> list[float | None]:
        return [None if value is None else value / amounts.size_j for value in values]

    lines = [Line("spent", "spent", time_s, scaled([point.spent_j for point in points]))]
    if any(point.forecast_j is not None for point in points):
        limits = [point.forecast_j_interval or (None, None) for point in points]
        middle = [point.forecast_j for point in points]
        lines.append(Line("forecast", "forecast", time_s, scaled(middle)))
        lines.append(Line("from", "low", time_s, scaled([low for low, _ in limits])))
        lines.append(Line("to", "high", time_s, scaled([high for _, high in limits])))
    if history.budget_j is not None:
        lines.append(Line("budget", "budget", time_s, scaled([history.budget_j] * len(points))))
    caption = f"{amounts.unit} spent, and the forecast of the whole run with its 90 % interval"
    if history.budget_j is not None and history.status is not None:
        top_j = FAR * max(history.budget_j, history.spent_j)
        beyond = (history.status.forecast_j or 0.0) > top_j
        caption += f", which is beyond {amounts.text(top_j)}: not drawn" if beyond else ""
    return Plot("spent", amounts.unit, lines, f"{caption}. {origin_of(history)}")


def _watts(points: Sequence[Point], origin: str) -> Plot:
    time_s, watts = [point.time_s for point in points], [point.power_w for point in points]
    line = Line("watts", "watts", time_s, watts)
    return Plot("watts", "W", [line], f"Mean watts of each look at the meter. {origin}")


def _layers(start: story.Start) -> Figure:
    parts = sorted(start.layers, key=lambda part: -part.energy_j)
    rest = parts[MOST_LAYERS:] if len(parts) > MOST_LAYERS + 1 else []
    shown = parts[: len(parts) - len(rest)]
    if rest:
        rest_j = math.fsum(part.energy_j for part in rest)
        shown.append(story.Part(f"{len(rest)} others", rest_j))
    whole_j = math.fsum(part.energy_j for part in parts) or 1.0
    drawn = [
        Bar(part.name, "", part.energy_j, (math.nan, math.nan), part.energy_j / whole_j, 0)
        for part in shown
    ]
    title = "Joules per layer"
    return Figure(
        "layers",
        bars(drawn, title=title, description="A bar for each layer."),
        "Estimated before the run; the meter sees only the whole.",
    )


def _happened(history: History) -> Iterator[Part]:
    times = [_to_the_second(note.time) for note in history.notes]
    days = {time[:DATE] for time in times}
    same_day = len(days) == 1 and len(max(days)) == DATE
    rows = [
        (
            time[DATE:].removesuffix(" UTC") if same_day else time,
            "" if note.step is None else units.number(note.step),
            note.text,
        )
        for time, note in zip(times, history.notes, strict=True)
    ]
    heading = max(days).strip() if same_day else "time"
    yield Table((heading, "step", "what"), rows[::-1], "<><")
    if history.dropped_notes:
        yield Text(f"{units.plural(history.dropped_notes, 'note')} before these are left out.")


def _facts(run: Run, amounts: Amounts) -> Iterator[tuple[str, str]]:
    history = run.history
    yield "file", str(run.place.path)
    start, status = history.start, history.status
    if start is None:
        return
    yield "run", start.run
    if start.meter:
        yield "meter", start.meter
    yield "joules", start.provenance.origin
    if start.budget or start.budget_j is not None:
        in_j = "" if start.budget_j is None else f", {units.joules(start.budget_j)}"
        if in_j.replace(" ", "") == f",{start.budget.replace(' ', '')}":
            in_j = ""
        yield (
            "budget",
            f"{start.budget or 'given'}{in_j}, to be kept with {start.confidence * 100:.3g} %",
        )
    if start.estimate_j is not None:
        limits = start.estimate_j_interval
        within = f", 90 % interval {amounts.interval(limits)}" if limits else ""
        yield "estimate", f"{amounts.text(start.estimate_j)} before the run{within}"
    if status and status.overhead is not None:
        yield "overhead", f"{status.overhead:.3g} J are metered for each joule of the estimate"
    if history.parts > 1:
        yield "parts", f"{history.parts}: it was resumed"
    if status:
        yield "last look", _to_the_second(status.time)


def _to_the_second(time: str) -> str:
    """A moment as people read it, without parts of a second."""
    date, _, rest = moment(time).partition(".")
    return f"{date}{rest.lstrip('0123456789')}"
