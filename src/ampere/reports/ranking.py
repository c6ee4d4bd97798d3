"""Ranking: devices side by side, a bar each with its interval, coloured by who says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ampere.reports.axes import legend
from ampere.reports.charts import BAR_HEIGHT, LETTERS, WHISKERS, Limits
from ampere.reports.scale import Scale
from ampere.reports.svg import WIDTH, Svg, chart, element, group, joined, line, text

ORIGINS = ("measured", "modelled", "simulated", "recorded")  # `Provenance.metered`, by colour
TOP = 20  # room for the legend


@dataclass(frozen=True)
class Place:
    """What a device takes: a number, its interval, and both in words."""

    label: str
    value: float
    limits: Limits
    shown: str
    note: str
    origin: str  # one of ORIGINS


def ranking(places: Sequence[Place], *, title: str, description: str) -> Svg:
    """A bar for each device, in the order in which they are given.

    An interval that reaches far beyond all values leaves the chart, or the others would be dots.
    """
    most = WHISKERS * max((place.value for place in places), default=0.0)
    reach = [min(limit, most) for place in places for limit in place.limits if limit == limit]
    x = Scale.over([*(place.value for place in places), *reach], 0.0, WIDTH - 2.0, zero=True)
    used = {ORIGINS.index(place.origin) for place in places}
    rows = [
        group(
            _bar(place, x),
            class_="row",
            transform=f"translate(1 {TOP + BAR_HEIGHT * number})",
        )
        for number, place in enumerate(places)
    ]
    height = TOP + BAR_HEIGHT * len(places)
    return chart(height, title, description, legend(ORIGINS, "sort", 12.0, used), *rows)


def _bar(place: Place, x: Scale) -> Svg:
    colour = f"sort{ORIGINS.index(place.origin)}"
    pieces = [element("rect", x=0, y=17, width=x.at(place.value), height=11, class_=colour)]
    low, high = place.limits
    if math.isfinite(low) and math.isfinite(high):
        pieces.append(line("whisker", (x.at(low), 22.5), (x.at(high), 22.5)))
        inside = [limit for limit in (low, high) if limit <= x.high]  # else it goes on
        pieces += [line("whisker", (x.at(limit), 19.5), (x.at(limit), 25.5)) for limit in inside]
    label = place.label if len(place.label) <= LETTERS else f"{place.label[: LETTERS - 1]}…"
    return joined(
        (
            element("title", f"{place.label}: {place.note}"),
            text(0, 12, label),
            text(WIDTH - 2, 12, place.shown, class_="end"),
            group(*pieces, class_="length"),
        )
    )
