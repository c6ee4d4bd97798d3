"""The page of a comparison: one model over the devices of a library, for people who choose one.

Estimates are called estimates, and joules that were modelled or simulated never look like measured
ones: they have a colour of their own, and the table says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ampere.core import units
from ampere.profiles.collection.cards import CHEAP_ROWS, short_error
from ampere.profiles.collection.comparison import Comparison, Standing
from ampere.reports.html import Report
from ampere.reports.labels import moment
from ampere.reports.parts import Figure, Part, Section, Table, Text
from ampere.reports.ranking import Place, ranking

OWN_ERROR = (
    "The own error is leave one out: what each profile's rows say of each other. It is no test on"
    " fresh models, which `ampere evaluate` is."
)


def report_comparison(comparison: Comparison) -> Report:
    """A page on what a model costs on each device."""
    count = units.plural(len(comparison.standings), "profile")
    steps = units.plural(comparison.steps, "training step")
    sections = [
        Section("Read with care", tuple(_cautions(comparison))),
        Section("Joules", (_joules(comparison),), half=True),
        *_seconds_section(comparison),
        Section("Side by side", (Table(*comparison.table()),)),
        *_left_out_section(comparison),
        Section("The profiles", (Text(OWN_ERROR), _profiles(comparison))),
    ]
    return Report(
        title=f"{comparison.model} by {count}",
        lead=f"{steps}, estimated, least joules first. Training: {comparison.setting}.",
        highlights=tuple(_highlights(comparison)),
        sections=tuple(sections),
    )


def _highlights(comparison: Comparison) -> Iterator[tuple[str, str]]:
    first = comparison.standings[0]
    low_j, high_j = map(units.joules, first.estimate.energy_j_interval)
    yield (
        units.joules(first.estimate.energy_j),
        f"least joules: {first.card.name}, {first.card.joules}; 90 % interval {low_j} to {high_j}"
        f"{'; ' + first.mark if first.mark else ''}",
    )
    timed = [each for each in comparison.standings if each.estimate.time_s is not None]
    if timed:
        quickest = min(timed, key=_time_s)
        yield units.seconds(_time_s(quickest)), f"least seconds: {quickest.card.name}"
    yield units.number(len(comparison.standings)), "profiles compared"
    if comparison.left_out:
        yield units.number(len(comparison.left_out)), "left out, see below"


def _cautions(comparison: Comparison) -> Iterator[Part]:
    texts = (*comparison.notes, *comparison.warnings)
    yield from (Text(text, warning=True) for text in texts)
    if not texts:
        yield Text("Nothing to warn of: joules, meters and runtimes are of one kind.")


def _joules(comparison: Comparison) -> Figure:
    places = [
        Place(
            label=f"{standing.card.name} · {standing.card.device}",
            value=standing.estimate.energy_j,
            limits=standing.estimate.energy_j_interval,
            shown=_marked(units.joules(standing.estimate.energy_j), standing),
            note=" to ".join(map(units.joules, standing.estimate.energy_j_interval)),
            origin=standing.card.metered,
        )
        for standing in comparison.standings
    ]
    caption = f"{_what(comparison)} in joules; whiskers are 90 % intervals."
    svg = ranking(places, title=f"Joules of {comparison.model}", description=caption)
    return Figure("joules", svg, caption)


def _seconds_section(comparison: Comparison) -> Iterator[Section]:
    places = [
        Place(
            label=f"{standing.card.name} · {standing.card.device}",
            value=_time_s(standing),
            limits=limits,
            shown=_marked(units.seconds(_time_s(standing)), standing),
            note=" to ".join(map(units.seconds, limits)),
            origin=standing.card.metered,
        )
        for standing in comparison.standings
        if (limits := standing.estimate.time_s_interval) is not None
    ]
    if places:
        caption = f"{_what(comparison)} in seconds, in the order of the joules."
        svg = ranking(places, title=f"Seconds of {comparison.model}", description=caption)
        yield Section("Seconds", (Figure("seconds", svg, caption),), half=True)


def _left_out_section(comparison: Comparison) -> Iterator[Section]:
    if comparison.left_out:
        rows = [(each.name, each.device, each.reason) for each in comparison.left_out]
        yield Section("Left out", (Table(("name", "device", "reason"), rows, "<<<"),))


def _profiles(comparison: Comparison) -> Table:
    """Where the numbers come from."""
    headers = ("name", "device", "joules", "meter", "runtime", "rows", "made for", "begun")
    cards = [standing.card for standing in comparison.standings]
    rows = [
        (
            *(card.name, card.device, card.joules, card.meter, card.runtime),
            *(units.number(card.rows), card.made_for, moment(card.begun)),
            short_error(card.own_error(CHEAP_ROWS)),
        )
        for card in cards
    ]
    return Table((*headers, "own error"), rows, "<<<<<><<>")


def _marked(value: str, standing: Standing) -> str:
    return f"{standing.mark} · {value}" if standing.mark else value


def _what(comparison: Comparison) -> str:
    return f"{units.plural(comparison.steps, 'training step')} of {comparison.model}, estimated,"


def _time_s(standing: Standing) -> float:
    return math.inf if standing.estimate.time_s is None else standing.estimate.time_s
