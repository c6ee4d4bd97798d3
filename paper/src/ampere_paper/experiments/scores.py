"""Scores: the error of every method by family and device, as figures 8 and 9 show it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.words import cell, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import INK
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.trials import trials_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = ("flops", "neuralpower", "roofline", "paper", "additive")
ALL = ("paper", "additive", "neuralpower", "roofline", "flops_affine", "flops", "extrapolation",
       "repeat")  # fmt: skip


def scores(lab: Laboratory, families: Sequence[str]) -> Json:
    """How well every method does on these families, on every bench that has them."""
    return [trial.score() for trial in trials_of(lab, families)]


def draw_bars(axes: Axes, rows: Sequence[Json]) -> None:
    """A group of bars for each device, and what metering again gives as a line across it."""
    places = np.arange(len(rows))
    width = 0.8 / len(BARS)
    for i, method in enumerate(BARS):
        look = canvas.METHODS[method]
        heights = [row["mape"].get(method) or 0.0 for row in rows]
        axes.bar(places + (i - (len(BARS) - 1) / 2) * width, heights, width, color=look.color,
                 label=look.label)  # fmt: skip
    floors = [row["mape"]["repeat"] for row in rows]
    axes.hlines(floors, places - 0.45, places + 0.45, color=INK, linewidth=0.9,
                linestyle=(0, (1.5, 1)), label="metered again: the floor")  # fmt: skip
    axes.set_xticks(places, [row["title"] for row in rows])
    axes.tick_params("x", length=0)
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, max(len(rows), 2) - 0.4)
    axes.set_ylabel("MAPE (%)")


def score_table(title: str, rows: Sequence[Json]) -> Page:
    """MAPE of every method, a row for each family and device."""
    cells = [
        (
            canvas.FAMILIES[row["family"]],
            *where(row),
            *(cell(row["mape"].get(method)) for method in ALL),
            f"{100 * row['coverage_90']:.0f}",
            str(row["models"]),
            f"{row['measurements']['paper']} / {row['measurements']['additive']}",
        )
        for row in rows
    ]
    headers = ("family", "device", "joules", *(canvas.METHODS[method].label for method in ALL),
               "in 90 % interval %", "models", "measured: paper's / additive")  # fmt: skip
    return table_of(title, headers, cells)


def means(rows: Sequence[Json]) -> dict[str, float]:
    """MAPE of every method, mean over families and devices."""
    errors = {
        method: [row["mape"][method] for row in rows if row["mape"].get(method) is not None]
        for method in ALL
    }
    return {method: fmean(values) for method, values in errors.items() if values}
