"""Charts: numbers as small pictures.

All are 360 units wide with letters of 11, so that they can be read on a phone, where they are a
little narrower, and on a desk, where they are a little wider.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from ampere.core import units
from ampere.core.page import escaped
from ampere.reports.svg import WIDTH, Svg, chart, element, points, text

LEFT, RIGHT, TOP, BOTTOM = 46, 12, 26, 36  # what stands around a plot
BAR_HEIGHT = 36
LETTERS = 40  # of a label that stands beside a number
LARGEST = sys.float_info.max
WHISKERS = 1.5  # times the largest value, and what is below the smallest, where they leave a chart
DECADES = 1.3  # a range of 20 and more is drawn on a logarithmic scale


@dataclass(frozen=True)
class Scale:
    """Where values stand on an axis: the low one at `start`, the high one at `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(
        cls, values: Iterable[float], start: float, end: float, *, zero: bool = False
    ) -> Scale:
        """A scale for these values, from 0 on if that is wanted, logarithmic if they need it."""
        known = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(known), max(known)
        if zero:
            return cls(min(low, 0.0), max(high, 0.0), start, end)
        log = low > 0 and math.log10(high) - math.log10(low) > DECADES
        return cls(low, high, start, end, log)

    def at(self, value: float) -> float:
        """The place of a value; what lies beyond an end stands at that end."""
        low, high, own = map(self._level, (self.low, self.high, value))
        share = (own - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def wider(self, share: float = 0.04) -> Scale:
        """The same with some room at both ends."""
        if self.log:
            factor = 10 ** (share * (math.log10(self.high) - math.log10(self.low)))
            low = self.low / factor or self.low  # the smallest numbers have no room below
            return replace(self, low=low, high=min(self.high * factor, LARGEST))
        room = share * self.high - share * self.low
        low, high = max(self.low - room, -LARGEST), min(self.high + room, LARGEST)
        return replace(self, low=low, high=high)

    def ticks(self, most: int = 5) -> list[float]:
        """A few round values between both ends, or the ends themselves."""
        found = self._decades(most) if self.log else self._steps(most)
        return found if len(found) > 1 else sorted({self.low, self.high})

    def _level(self, value: float) -> float:
        if self.log:
            return math.log10(value) if value > 0 else -math.inf
        return value / (max(abs(self.low), abs(self.high)) or 1.0)  # so that nothing overflows

    def _steps(self, most: int) -> list[float]:
        rough = self.high / most - self.low / most
        power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 0.0
        if not power:
            return []
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
        first, last = self.low / step, self.high / step
        if not math.isfinite(step) or max(abs(first), abs(last)) > 1e9:  # too close to tell apart
            return []
        numbers = range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)
        return [number * step for number in numbers]

    def _decades(self, most: int) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        few = math.log10(self.high) - math.log10(self.low) < 2.3
        found = [
            size * 10.0**power
            for power in range(max(first, -300), min(last, 300) + 1)
            for size in ((1, 2, 5) if few else (1,))
        ]
        found = [value for value in found if self.low <= value <= self.high]
        return found[:: -(-len(found) // (most + 2))] if found else []


@dataclass(frozen=True)
class Bar:
    """A layer, or several that are the same: joules, their interval, and how they divide."""

    label: str
    note: str
    energy_j: float
    low_j: float
    high_j: float
    share: float
    group: int  # bars of a group are hidden and shown together
    parts: tuple[float, ...] = ()  # shares of it, 1 together


@dataclass(frozen=True)
class Dot:
    """One thing that was metered, and what is said of it."""

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan
    label: str = ""


@dataclass(frozen=True)
class Item:
    """One thing that was done, of one of several sorts, and what it took."""

    label: str
    sort: int
    time_s: float
    energy_j: float


def bars(rows: Sequence[Bar], title: str, description: str, parts: Sequence[str] = ()) -> Svg:
    """A bar for each layer with its interval; `parts` names what bars are divided into."""
    unit, size = units.prefix_of(max((abs(row.energy_j) for row in rows), default=0.0), "J")
    values = [value for row in rows for value in (row.energy_j, row.low_j, row.high_j)]
    x = Scale.over(values, 0.0, WIDTH - 2.0, zero=True)
    top = 20 if parts else 4
    drawn = [
        _group(
            _bar(row, x, f"{row.energy_j / size:.3g} {unit}"),
            class_="row",
            transform=f"translate(1 {top + BAR_HEIGHT * number})",
            data_group=row.group,
            data_j=repr(row.energy_j),
            data_high=repr(max(row.energy_j, row.high_j)),
        )
        for number, row in enumerate(rows)
    ]
    height = top + BAR_HEIGHT * len(rows)
    legend = _legend(parts, "part", 12.0) if parts else ""
    return chart(height, title, description, legend, *drawn, data_top=top, data_row=BAR_HEIGHT)


def _bar(row: Bar, x: Scale, value: str) -> str:
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
    low, high = x.at(row.low_j), x.at(row.high_j)
    if math.isfinite(row.low_j) and math.isfinite(row.high_j):
        pieces.append(_line("whisker", (low, 22.5), (high, 22.5)))
        pieces += [_line("whisker", (end, 19.5), (end, 25.5)) for end in (low, high)]
    return "".join(
        (
            element("title", escaped(f"{row.label}: {row.note}")),
            text(0, 12, _cut(row.label, LETTERS)),
            text(WIDTH - 2, 12, f"{value} · {units.percent(row.share)}", class_="end"),
            _group(*pieces, class_="length"),
        )
    )


def scatter(dots: Sequence[Dot], title: str, description: str, x_title: str, y_title: str) -> Svg:
    """What is said over what was metered, with intervals, and the diagonal where both agree."""
    height = 360
    values = [value for dot in dots for value in (dot.x, dot.y)]
    low, high = min(values) / WHISKERS, max(values) * WHISKERS
    ends = [value for dot in dots for value in (dot.low, dot.high) if math.isfinite(value)]
    values += [min(max(value, low), high) for value in ends]
    x = Scale.over(values, LEFT, WIDTH - RIGHT).wider()
    y = Scale(x.low, x.high, height - BOTTOM, TOP, x.log)
    ticks = x.ticks()
    unit, labels = _in_joules(ticks)
    drawn = [
        _group(
            element("title", escaped(dot.label)),
            _whisker(x.at(dot.x), y, dot),
            element("circle", cx=x.at(dot.x), cy=y.at(dot.y), r=3.2, class_="dot"),
        )
        for dot in dots
    ]
    diagonal = _line("diagonal", (x.start, y.start), (x.end, y.end))
    axes = _axes(x, y, (ticks, labels), (ticks, labels))
    titles = _titles(height, f"{x_title} ({unit})", f"{y_title} ({unit})")
    return chart(height, title, description, axes, titles, diagonal, *drawn)


def band(
    x: Sequence[float],
    y: Sequence[tuple[float, float, float]],
    dots: Sequence[Dot],
    title: str,
    description: str,
    x_title: str,
    y_title: str,
) -> Svg:
    """A line of (value, low, high) over x, its interval as a band, and dots around it."""
    height = 260
    across = Scale.over([*x, *(dot.x for dot in dots)], LEFT, WIDTH - RIGHT)
    across = Scale(across.low, across.high, across.start, across.end)  # widths are not logarithms
    values = [value for three in y for value in three]
    up = Scale.over([*values, *(dot.y for dot in dots)], height - BOTTOM, TOP, zero=True)
    places = [across.at(value) for value in x]
    middle, low, high = (
        [(at, up.at(value)) for at, value in zip(places, column, strict=True)]
        for column in zip(*y, strict=True)
    )
    ticks = up.ticks()
    unit, labels = _in_joules(ticks)
    x_ticks = across.ticks()
    axes = _axes(across, up, (x_ticks, list(map(_short, x_ticks))), (ticks, labels))
    drawn = [
        element("polygon", points=points([*low, *reversed(high)]), class_="band"),
        element("polyline", points=points(middle), class_="line"),
        *(
            element(
                "circle",
                element("title", escaped(dot.label)),
                cx=across.at(dot.x),
                cy=up.at(dot.y),
                r=3,
                class_="dot",
            )
            for dot in dots
        ),
    ]
    titles = _titles(height, x_title, f"{y_title} ({unit})")
    return chart(height, title, description, axes, titles, *drawn)


def strip(items: Sequence[Item], sorts: Sequence[str], title: str, description: str) -> Svg:
    """What was done, from left to right, with the seconds and the joules of each."""
    rows = [
        (name, [item.time_s if name == "seconds" else item.energy_j for item in items])
        for name in ("seconds", "joules")
    ]
    rows = [(name, values) for name, values in rows if any(value > 0 for value in values)]
    each, top = 92, 22
    step = (WIDTH - LEFT - RIGHT) / max(len(items), 1)
    used = {item.sort for item in items}
    drawn = [_legend(sorts, "sort", 12.0, used)]
    for number, (name, values) in enumerate(rows):
        floor = top + each * (number + 1) - 10.0
        up = Scale.over(values, floor, floor - each + 34.0, zero=True)
        ticks = up.ticks(3)
        unit, size = units.prefix_of(up.high, name[0].replace("j", "J"))
        labels = [_short(tick / size) for tick in ticks]
        drawn += [
            text(0, up.end - 9, f"{name} of each ({unit})", class_="pale"),
            *(_line("grid", (LEFT, up.at(tick)), (WIDTH - RIGHT, up.at(tick))) for tick in ticks),
            *(text(LEFT - 5, up.at(tick) + 3.5, label, class_="pale end")
              for tick, label in zip(ticks, labels, strict=True)),
            *(_column(item, LEFT + step * at, step, up, value)
              for at, (item, value) in enumerate(zip(items, values, strict=True))),
        ]  # fmt: skip
    height = top + each * len(rows) + 14
    ends = text(LEFT, height - 4, "first", class_="pale") + text(
        WIDTH - RIGHT, height - 4, f"last, {_ordinal(len(items))}", class_="pale end"
    )
    return chart(height, title, description, *drawn, ends)


def _column(item: Item, left: float, step: float, up: Scale, value: float) -> str:
    value = value if math.isfinite(value) else 0.0
    tall = max(up.start - up.at(value), 1.5)  # what took next to nothing is there, too
    return element(
        "rect",
        element("title", escaped(item.label)),
        x=left + 0.1 * step,
        y=up.start - tall,
        width=0.8 * step,
        height=tall,
        class_=f"sort{item.sort}",
    )


def _group(*inside: str, **attributes: str | float) -> str:
    return element("g", *inside, **attributes)


def _line(class_: str, *places: tuple[float, float]) -> str:
    return element("polyline", points=points(places), class_=class_)


def _whisker(at: float, y: Scale, dot: Dot) -> str:
    if not (math.isfinite(dot.low) and math.isfinite(dot.high)):
        return ""
    return _line("whisker", (at, y.at(dot.low)), (at, y.at(dot.high)))


def _axes(
    x: Scale,
    y: Scale,
    x_ticks: tuple[Sequence[float], Sequence[str]],
    y_ticks: tuple[Sequence[float], Sequence[str]],
) -> str:
    """Lines and numbers of both axes; y runs upwards, so it starts at the bottom."""
    parts = []
    for value, label in zip(*y_ticks, strict=True):
        parts.append(_line("grid", (x.start, y.at(value)), (x.end, y.at(value))))
        parts.append(text(x.start - 5, y.at(value) + 3.5, label, class_="pale end"))
    for value, label in zip(*x_ticks, strict=True):
        parts.append(_line("grid", (x.at(value), y.start), (x.at(value), y.end)))
        parts.append(text(x.at(value), y.start + 13, label, class_="pale middle"))
    return "".join(parts)


def _titles(height: float, x_title: str, y_title: str) -> str:
    """What the axes are: the upright one's name stands above it, where it can be read."""
    below = text(WIDTH - RIGHT, height - 6, f"{x_title} →", class_="end")
    return text(0, 12, f"↑ {y_title}") + below


def _legend(names: Sequence[str], class_: str, y: float, used: Container[int] | None = None) -> str:
    """Coloured squares with names, in a line, of those that are used."""
    parts, x = [], 0.0
    for number, name in enumerate(names):
        if used is not None and number not in used:
            continue
        parts.append(element("rect", x=x, y=y - 9, width=9, height=9, class_=f"{class_}{number}"))
        parts.append(text(x + 13, y, name, class_="pale"))
        x += 26 + 5.9 * len(name)
    return "".join(parts)


def _in_joules(ticks: Sequence[float]) -> tuple[str, list[str]]:
    unit, size = units.prefix_of(max((abs(tick) for tick in ticks), default=0.0), "J")
    return unit, [_short(tick / size) for tick in ticks]


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e6 else f"{value:.0f}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def _cut(label: str, most: int) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
