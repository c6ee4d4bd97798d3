"""Axes: the lines, numbers and names around what a chart shows, and the squares that explain it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from ampere.core import units
from ampere.reports.scale import Scale
from ampere.reports.svg import WIDTH, Svg, element, joined, line, text

LEFT, RIGHT, TOP, BOTTOM = 46, 12, 26, 36  # what stands around a plot


@dataclass(frozen=True)
class Ticks:
    """Values that are marked on an axis, what is written at each, and in which unit."""

    values: Sequence[float]
    labels: Sequence[str]
    unit: str = ""

    @classmethod
    def of(cls, scale: Scale, unit: str = "", most: int = 5) -> Ticks:
        """The round values of a scale; with a unit, in the multiple of it that is short."""
        values = scale.ticks(most)
        if not unit:
            return cls(values, list(map(short_number, values)))
        largest = max((abs(value) for value in values), default=0.0)
        multiple, size = units.prefix_of(largest, unit)
        return cls(values, [short_number(value / size) for value in values], multiple)


def upright_axis(scale: Scale, ticks: Ticks, left: float, right: float) -> Svg:
    """A line across the plot for each tick, its number to the left."""
    return joined(
        line("grid", (left, scale.at(value)), (right, scale.at(value)))
        + text(left - 5, scale.at(value) + 3.5, label, class_="pale end")
        for value, label in zip(ticks.values, ticks.labels, strict=True)
    )


def level_axis(scale: Scale, ticks: Ticks, bottom: float, top: float) -> Svg:
    """A line up the plot for each tick, its number below."""
    return joined(
        line("grid", (scale.at(value), bottom), (scale.at(value), top))
        + text(scale.at(value), bottom + 13, label, class_="pale middle")
        for value, label in zip(ticks.values, ticks.labels, strict=True)
    )


def axes(x: Scale, y: Scale, x_ticks: Ticks, y_ticks: Ticks) -> Svg:
    """Lines and numbers of both axes; y runs upwards, so it starts at the bottom."""
    upright = upright_axis(y, y_ticks, x.start, x.end)
    return upright + level_axis(x, x_ticks, y.start, y.end)


def axis_titles(height: float, x_title: str, y_title: str) -> Svg:
    """What the axes are: the upright one's name stands above it, where it can be read."""
    below = text(WIDTH - RIGHT, height - 6, f"{x_title} →", class_="end")
    return text(0, 12, f"↑ {y_title}") + below


def legend(names: Sequence[str], class_: str, y: float, used: Container[int] | None = None) -> Svg:
    """Coloured squares with names, in a line, of those that are used (all if it is not given)."""
    squares, x = [], 0.0
    for number, name in enumerate(names):
        if used is not None and number not in used:
            continue
        squares += [
            element("rect", x=x, y=y - 9, width=9, height=9, class_=f"{class_}{number}"),
            text(x + 13, y, name, class_="pale"),
        ]
        x += 26 + 5.9 * len(name)
    return joined(squares)


def short_number(value: float) -> str:
    """Four digits, without zeros at their end; whole where that is short enough."""
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e6 else f"{value:.0f}"
