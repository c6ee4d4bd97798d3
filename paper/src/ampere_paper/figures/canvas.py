"""Canvas: what the figures of all experiments have in common.

Methods and benches have the same colour and the same marker on every figure; every panel says
whose joules it shows, and every caption what these are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.types import Json
from ampere.meters.base import Provenance
from ampere_paper.figures.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PAGE_IN,
    PALE,
    PINK,
    RED,
    SKY,
    YELLOW,
    add_caption,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Row = Mapping[str, Any]


class Mark(NamedTuple):
    """How a bench is drawn, wherever it is; its rows say what it is called."""

    color: str
    marker: str


class Look(NamedTuple):
    """How a method is called and drawn, wherever it is."""

    label: str
    color: str
    marker: str


METHODS = {
    "paper": Look("ampere, paper's method", GREEN, "s"),
    "additive": Look("ampere, additive", BLUE, "o"),
    "neuralpower": Look("NeuralPower", ORANGE, "D"),
    "roofline": Look("roofline", SKY, "v"),
    "flops_affine": Look("FLOPs, affine", PINK, "<"),
    "flops": Look("FLOPs", RED, "^"),
    "extrapolation": Look("ten steps", YELLOW, "P"),
    "repeat": Look("metered again", INK, "_"),
}
BENCH_MARKS = {
    "threads1": Mark(INK, "o"),
    "threads2": Mark(PALE, "s"),
    "no-onednn": Mark(YELLOW, "P"),
    "iphone": Mark(PINK, "v"),
    "oppo": Mark(ORANGE, "^"),
    "server": Mark(RED, "D"),
    "tx2": Mark(SKY, "<"),
    "xavier": Mark(BLUE, ">"),
}
FAMILIES = {
    "lenet5": "LeNet-5",
    "cnn5": "5-layer CNN",
    "har": "HAR",
    "lstm": "LSTM",
    "transformer": "Transformer",
    "resnet": "ResNets",
}


def grid(
    count: int, columns: int | None = None, height_in: float = 1.75, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, as wide as a page; up to five stand in a row, more in two."""
    columns = min(columns or (count if count <= 5 else -(-count // 2)), count)
    rows = -(-count // columns)
    width_in = PAGE_IN if columns > 2 else PAGE_IN * (columns + 1) / 4
    figure = new_figure(width_in, rows * height_in + 0.5)
    panels = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for spare in panels[count:]:
        spare.remove()
    return figure, panels[:count]


def heading(row: Row, joint: str = "\n") -> str:
    """A bench, and what its joules are, in two lines or in one: `Xavier, simulated`."""
    return f"{row['title']}{joint}{Provenance(row['provenance']).metered}"


def origins(rows: Sequence[Row]) -> str:
    """What the joules of these benches are, in a sentence."""
    groups = grouped(rows, lambda row: row["provenance"])
    parts = [
        f"{Provenance(group[0]['provenance']).origin}"
        f" ({', '.join(dict.fromkeys(row['title'] for row in group))})"
        for group in groups
    ]
    return f"Joules are {'; '.join(parts)}."


def finish(figure: Figure, rows: Sequence[Row], text: str, legend: int = 0) -> Figure:
    """Caption and, if wanted, a legend in so many columns above everything."""
    if legend:
        handles: dict[str, Any] = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(
            list(handles.values()), list(handles), loc="outside upper center", ncols=legend,
            handlelength=1.6, columnspacing=1.4,
        )  # fmt: skip
    add_caption(figure, f"{text} {origins(rows)}".strip())
    return figure


def joule_scale(values: Sequence[float]) -> tuple[float, str]:
    """A factor and a unit in which joules are handy numbers."""
    unit, size = units.prefix_of(max(map(abs, values), default=0.0), "J")
    return 1 / size, unit


def plain_log(axis: Axis) -> None:
    """Numbers as people write them along a logarithmic axis, few enough to be read."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(_round_numbers(*sorted(axis.get_view_interval()))))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _round_numbers(low: float, high: float) -> list[float]:
    """Numbers that are easy to read, at least three of them where that can be."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        every = (step * 10.0**decade for decade in decades for step in steps)
        visible = [value for value in every if low <= value <= high]
        if len(visible) >= 3:
            return visible
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    step *= next((times for times in (5, 2) if times * step * 2 <= high - low), 1)
    first = math.ceil(low / step)
    return [step * n for n in range(first, math.floor(high / step) + 1)]


def families_of(rows: Sequence[Json]) -> list[str]:
    """The families of these rows, in the paper's order."""
    there = {row["family"] for row in rows}
    return [family for family in FAMILIES if family in there]
