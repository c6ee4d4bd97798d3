"""Charts: numbers as small pictures.

All are 360 units wide with letters of 11, so that they can be read on a phone, where they are a
little narrower, and on a desk, where they are a little wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ampere.core import units
from ampere.reports.axes import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    Ticks,
    axes,
    axis_titles,
    legend,
    upright_axis,
)
from ampere.reports.scale import Scale
from ampere.reports.svg import WIDTH, Svg, chart, element, group, joined, line, points, text

BAR_HEIGHT = 36
SCATTER_HEIGHT = 360
BAND_HEIGHT = 260
STRIP_HEIGHT, STRIP_TOP = 92, 22  # of each row, and what stands above the first
LETTERS = 40  # of a label that stands beside a number
WHISKERS = 1.5  # times the largest value, and what is below the smallest, where they leave a chart

Limits = tuple[float, float]


@dataclass(frozen=True)
class Bar:
    """A layer, or several that are the same: joules, their interval, and how they divide."""

    label: str
    note: str
    energy_j: float
    limits_j: Limits
    share: float
    group: int  # bars of a group are hidden and shown together
    parts: tuple[float, ...] = ()  # shares of it, 1 together


@dataclass(frozen=True)
class Dot:
    """One thing that was metered, and what is said of it."""

    x: float
    y: float
    limits: Limits | None = None  # of y
    label: str = ""


@dataclass(frozen=True)
class Item:
    """One thing that was done, of one of several sorts, and what it took."""

    label: str
    sort: int
    time_s: float
    energy_j: float


def bars(
    rows: Sequence[Bar], *, title: str, description: str, part_names: Sequence[str] = ()
) -> Svg:
    """A bar for each layer with its interval; `part_names` are of what bars are divided into."""
    unit, unit_j = units.prefix_of(max((abs(row.energy_j) for row in rows), default=0.0), "J")
    values = [value for row in rows for value in (row.energy_j, *row.limits_j)]
    x = Scale.over(values, 0.0, WIDTH - 2.0, zero=True)
    top = 20 if part_names else 4
    rows_drawn = [
        group(
            _bar(row, x, f"{row.energy_j / unit_j:.3g} {unit}"),
            class_="row",
            transform=f"translate(1 {top + BAR_HEIGHT * number})",
            data_group=row.group,
            data_j=repr(row.energy_j),
            data_high=repr(max(row.energy_j, row.limits_j[1])),
        )
        for number, row in enumerate(rows)
    ]
    return chart(
        top + BAR_HEIGHT * len(rows),
        title,
        description,
        legend(part_names, "part", 12.0),
        *rows_drawn,
        data_top=top,
        data_row=BAR_HEIGHT,
    )


def _bar(row: Bar, x: Scale, value: str) -> Svg:
    zero, end = x.at(0.0), x.at(row.energy_j)
    left, width = min(zero, end), abs(end - zero)
    pieces = [element("rect", x=left, y=17, width=width, height=11, class_="bar")]
    if row.parts:
        edges = [left + width * math.fsum(row.parts[:n]) for n in range(len(row.parts) + 1)]
        pieces = [
            element("rect", x=edges[n], y=17, width=max(edges[n + 1] - edges[n], 0.0), height=11,
                    class_=f"part{n}")
            for n in range(len(row.parts))
        ]  # fmt: skip
    if all(map(math.isfinite, row.limits_j)):
        low, high = map(x.at, row.limits_j)
        pieces.append(line("whisker", (low, 22.5), (high, 22.5)))
        pieces += [line("whisker", (limit, 19.5), (limit, 25.5)) for limit in (low, high)]
    return joined(
        (
            element("title", f"{row.label}: {row.note}"),
            text(0, 12, _cut(row.label, LETTERS)),
            text(WIDTH - 2, 12, f"{value} · {units.percent(row.share)}", class_="end"),
            group(*pieces, class_="length"),
        )
    )


def scatter(
    dots: Sequence[Dot], *, title: str, description: str, x_title: str, y_title: str
) -> Svg:
    """Joules over joules, with intervals, and the diagonal where both agree."""
    values = [value for dot in dots for value in (dot.x, dot.y)]
    low, high = min(values) / WHISKERS, max(values) * WHISKERS
    limits = [value for dot in dots for value in dot.limits or () if math.isfinite(value)]
    values += [min(max(value, low), high) for value in limits]
    x = Scale.over(values, LEFT, WIDTH - RIGHT).wider()
    y = Scale(x.low, x.high, SCATTER_HEIGHT - BOTTOM, TOP, x.log)
    ticks = Ticks.of(x, "J")
    dots_drawn = [
        group(
            element("title", dot.label),
            _whisker(x.at(dot.x), y, dot.limits),
            element("circle", cx=x.at(dot.x), cy=y.at(dot.y), r=3.2, class_="dot"),
        )
        for dot in dots
    ]
    return chart(
        SCATTER_HEIGHT,
        title,
        description,
        axes(x, y, ticks, ticks),
        axis_titles(SCATTER_HEIGHT, f"{x_title} ({ticks.unit})", f"{y_title} ({ticks.unit})"),
        line("diagonal", (x.start, y.start), (x.end, y.end)),
        *dots_drawn,
    )


def _whisker(at: float, y: Scale, limits: Limits | None) -> Svg:
    if limits is None or not all(map(math.isfinite, limits)):
        return Markup("")
    low, high = limits
    return line("whisker", (at, y.at(low)), (at, y.at(high)))


def band(
    x_values: Sequence[float],
    y_values: Sequence[tuple[float, float, float]],
    dots: Sequence[Dot],
    *,
    title: str,
    description: str,
    x_title: str,
    y_title: str,
) -> Svg:
    """A line of joules (value, low, high) over x, its interval as a band, and dots around it."""
    x = Scale.over([*x_values, *(dot.x for dot in dots)], LEFT, WIDTH - RIGHT).linear()
    all_y = [*(value for three in y_values for value in three), *(dot.y for dot in dots)]
    y = Scale.over(all_y, BAND_HEIGHT - BOTTOM, TOP, zero=True)
    middle, low, high = (
        [(x.at(value), y.at(level)) for value, level in zip(x_values, column, strict=True)]
        for column in zip(*y_values, strict=True)
    )
    y_ticks = Ticks.of(y, "J")
    dots_drawn = [
        element("circle", element("title", dot.label), cx=x.at(dot.x), cy=y.at(dot.y), r=3,
                class_="dot")
        for dot in dots
    ]  # fmt: skip
    return chart(
        BAND_HEIGHT,
        title,
        description,
        axes(x, y, Ticks.of(x), y_ticks),
        axis_titles(BAND_HEIGHT, x_title, f"{y_title} ({y_ticks.unit})"),
        element("polygon", points=points([*low, *reversed(high)]), class_="band"),
        line("line", *middle),
        *dots_drawn,
    )


def strip(items: Sequence[Item], sorts: Sequence[str], *, title: str, description: str) -> Svg:
    """What was done, from left to right, with the seconds and the joules of each if known."""
    quantities = (
        ("seconds", "s", [item.time_s for item in items]),
        ("joules", "J", [item.energy_j for item in items]),
    )
    rows = [each for each in quantities if any(value > 0 for value in each[2])]
    rows_drawn = [
        _strip_row(items, values, f"{name} of each", unit, STRIP_TOP + STRIP_HEIGHT * number)
        for number, (name, unit, values) in enumerate(rows, 1)
    ]
    height = STRIP_TOP + STRIP_HEIGHT * len(rows) + 14
    return chart(
        height,
        title,
        description,
        legend(sorts, "sort", 12.0, {item.sort for item in items}),
        *rows_drawn,
        text(LEFT, height - 4, "first", class_="pale"),
        text(WIDTH - RIGHT, height - 4, f"last, {_ordinal(len(items))}", class_="pale end"),
    )


def _strip_row(
    items: Sequence[Item], values: Sequence[float], name: str, unit: str, bottom: float
) -> Svg:
    """A column for each thing that was done."""
    y = Scale.over(values, bottom - 10.0, bottom - STRIP_HEIGHT + 24.0, zero=True)
    ticks = Ticks.of(y, unit, most=3)
    step = (WIDTH - LEFT - RIGHT) / max(len(items), 1)
    columns = [
        _column(item, LEFT + step * number, step, y, value)
        for number, (item, value) in enumerate(zip(items, values, strict=True))
    ]
    return (
        text(0, y.end - 9, f"{name} ({ticks.unit})", class_="pale")
        + upright_axis(y, ticks, LEFT, WIDTH - RIGHT)
        + joined(columns)
    )


def _column(item: Item, left: float, step: float, y: Scale, value: float) -> Svg:
    finite = value if math.isfinite(value) else 0.0
    tall = max(y.start - y.at(finite), 1.5)  # what took next to nothing is there, too
    return element(
        "rect",
        element("title", item.label),
        x=left + 0.1 * step,
        y=y.start - tall,
        width=0.8 * step,
        height=tall,
        class_=f"sort{item.sort}",
    )


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def _cut(label: str, most: int) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
