"""Every chart of any numbers and any label, for what holds of all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from ampere.reports.charts import Bar, Dot, Item, band, bars, scatter, strip
from ampere.reports.surface import Peak, surface
from ampere.reports.svg import Svg

TAG = "{http://www.w3.org/2000/svg}"


def draw_bars(values: Sequence[float], label: str = "conv1") -> Svg:
    rows = [
        Bar(label, label, v, limits_j=(w, v), share=0.5, group=0, parts=(0.5, 0.3, 0.2))
        for v, w in _pairs(values)
    ]
    names = ("forward", "backward", label)
    return bars(rows, title=label, description=label, part_names=names)


def draw_scatter(values: Sequence[float], label: str = "a network") -> Svg:
    dots = [Dot(v, w, (w, v), label) for v, w in _pairs(values)]
    return scatter(dots, title=label, description=label, x_title=label, y_title="y")


def draw_band(values: Sequence[float], label: str = "out") -> Svg:
    three = [(value, value, value) for value in values]
    dots = [Dot(values[0], values[-1], label=label)]
    return band(
        sorted(values), three, dots, title=label, description=label, x_title=label, y_title=label
    )


def draw_strip(values: Sequence[float], label: str = "variant") -> Svg:
    items = [Item(label, i % 2, abs(v), abs(w)) for i, (v, w) in enumerate(_pairs(values))]
    return strip(items, (label, "network"), title=label, description=label)


def draw_surface(values: Sequence[float], label: str = "in") -> Svg:
    x, y = sorted(values), sorted(values[:3])
    z = [[a / 2 + b / 2 for b in y] for a in x]
    peaks = [Peak(values[0], values[1], values[2], label)]
    return surface(x, y, z, peaks, title=label, description=label, axis_names=(label, "out"))


def _pairs(values: Sequence[float]) -> list[tuple[float, float]]:
    return list(itertools.pairwise([*values, values[0]]))


CHARTS: list[Callable[..., Svg]] = [draw_bars, draw_scatter, draw_band, draw_strip, draw_surface]
of_every_chart = pytest.mark.parametrize("draw", CHARTS)
