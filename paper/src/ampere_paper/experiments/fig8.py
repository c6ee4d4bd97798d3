"""Figures 8 and 9: the error of every method, by family and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper import drawing
from ampere_paper.experiments.experiment import (
    Experiment,
    beats_flops,
    cell,
    holds,
    mean_errors,
    span,
)
from ampere_paper.figures import INK
from ampere_paper.laboratory import Laboratory
from ampere_paper.plans import FOUR
from ampere_paper.surveys import surveys

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BARS = ("flops", "neuralpower", "roofline", "paper", "additive")
ALL = ("paper", "additive", "neuralpower", "roofline", "flops_affine", "flops", "extrapolation",
       "repeat")  # fmt: skip
ABOUT_TEN = 12.0  # percent that may be called about 10


def scores(lab: Laboratory, families: Sequence[str]) -> Json:
    """How well every method does on these families, on every bench that has them."""
    return [found.score() for found in surveys(lab, families)]


def draw_bars(axes: Axes, rows: Sequence[Json]) -> None:
    """A group of bars for each device, and what metering again gives as a line across it."""
    places = np.arange(len(rows))
    width = 0.8 / len(BARS)
    for i, method in enumerate(BARS):
        look = drawing.METHODS[method]
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
            drawing.FAMILIES[row["family"]],
            *drawing.where(row),
            *(cell(row["mape"].get(method)) for method in ALL),
            f"{100 * row['coverage_90']:.0f}",
            str(row["models"]),
            f"{row['measurements']['paper']} / {row['measurements']['additive']}",
        )
        for row in rows
    ]
    headers = ("family", "device", "joules", *(drawing.METHODS[method].label for method in ALL),
               "in 90 % interval %", "models", "measured: paper's / additive")  # fmt: skip
    return drawing.page(title, headers, cells)


def means(rows: Sequence[Json]) -> dict[str, float]:
    """MAPE of every method, mean over families and devices."""
    known = {
        method: [row["mape"][method] for row in rows if row["mape"].get(method) is not None]
        for method in ALL
    }
    return {method: fmean(values) for method, values in known.items() if values}


def _draw(data: Json) -> Mapping[str, Figure]:
    families = drawing.families_of(data)
    figure, panels = drawing.grid(len(families), columns=1, height_in=1.45)
    figure.set_figwidth(7.2)
    for family, axes in zip(families, panels, strict=True):
        draw_bars(axes, [row for row in data if row["family"] == family])
        axes.set_title(drawing.FAMILIES[family], loc="left")
    figure.align_ylabels()
    text = "Mean absolute percentage error over unseen random members of each family."
    return {"fig8": drawing.finish(figure, data, text, legend=6)}


def _sentence(data: Json) -> str:
    mean = means(data)
    paper, flops = ([row["mape"][method] for row in data] for method in ("paper", "flops"))
    both = [p <= ABOUT_TEN and p < f / 2 for p, f in zip(paper, flops, strict=True)]
    additive = [row["mape"]["additive"] for row in data]
    return (
        f"Mean over {len(data)} pairs of family and device: FLOPs {mean['flops']:.1f} %, the"
        f" paper's method {mean['paper']:.1f} % ({span(paper)}), additive {mean['additive']:.1f} %"
        f" ({span(additive)}), NeuralPower {cell(mean.get('neuralpower'))} %, metering again"
        f" {mean['repeat']:.1f} %. That the paper's method gets to about 10 % (at most"
        f" {ABOUT_TEN:g} %) and under half of the error of FLOPs: {holds(both, 'pair')}."
    )


FIG8 = Experiment(
    "fig8",
    "End-to-end error of four families on every device",
    "MAPE falls from about 40 % by FLOPs to about 10 % (section 4.1, Fig. 8).",
    lambda lab: scores(lab, FOUR),
    _draw,
    lambda data: score_table("MAPE in percent", data),
    _sentence,
    FOUR,
)


def _draw_transformer(data: Json) -> Mapping[str, Figure]:
    figure, (axes,) = drawing.grid(1, height_in=2.0)
    figure.set_figwidth(max(4.6, 0.8 * len(data)))
    draw_bars(axes, data)
    text = "Mean absolute percentage error over unseen random Transformers."
    return {"fig9": drawing.finish(figure, data, text, legend=3)}


def _sentence_transformer(data: Json) -> str:
    neuralpower = cell(means(data).get("neuralpower"))
    return f"{mean_errors(data)}, NeuralPower {neuralpower} %; {beats_flops(data)}."


FIG9 = Experiment(
    "fig9",
    "Transformers",
    "ampere consistently outperforms FLOPs on Transformers (section 4.1, Fig. 9).",
    lambda lab: scores(lab, ("transformer",)),
    _draw_transformer,
    lambda data: score_table("MAPE in percent", data),
    _sentence_transformer,
    ("transformer",),
)
