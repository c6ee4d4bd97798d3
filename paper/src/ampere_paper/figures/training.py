"""Training: how the models of a study learned and what they took, over its iterations.

What tells models apart is colour and line style both, so that it survives colour blindness and a
grey printer.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ampere.core import units
from ampere.core.budget import JOULES
from ampere_paper.figures.style import (
    BLUE,
    COLUMN_IN,
    INK,
    RED,
    add_caption,
    new_figure,
    refuse_other_suffixes,
    save,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ampere_paper.study.study import Study

PANEL_IN = 1.35
LOOKS: Mapping[str, Mapping[str, Any]] = {
    "full": {"color": INK, "linestyle": "-"},
    "energy": {"color": BLUE, "linestyle": "-"},
    "flops": {"color": RED, "linestyle": (0, (4, 1.5))},
}
LABELS = {"full": "full model", "energy": "energy-guided", "flops": "FLOPs-guided"}


def draw_study(study: Study, path: str | os.PathLike[str]) -> None:
    """Loss, accuracy and joules of a study over its iterations, with the budget (paper, Fig. 13).

    Args:
        study: What to draw, fresh or read back from a file.
        path: Where to; its suffix says whether as png, svg or pdf.

    Raises:
        DataError: matplotlib is missing, or the path cannot be written.
    """
    refuse_other_suffixes(path)
    with styled():
        save(study_figure(study), path)


def study_figure(study: Study) -> Figure:
    """Loss, accuracy and joules of a study over its iterations; within `styled`."""
    figure = new_figure(COLUMN_IN, 3 * PANEL_IN + 0.5)
    loss, accuracy, energy = figure.subplots(3, 1, sharex=True)
    for curve in study.curves:
        look = LOOKS.get(curve.name, {})
        smooth = _smoothed(curve.loss)
        loss.plot(curve.steps, curve.loss, **{**look, "linestyle": "-"}, alpha=0.25, linewidth=0.6)
        loss.plot(curve.steps, smooth, **look, label=LABELS.get(curve.name, curve.name))
        accuracy.plot(curve.steps, 100 * np.array(curve.accuracy), **look)
    loss.set_ylabel("training\nloss")
    accuracy.set_ylabel("validation\naccuracy (%)")
    _draw_energy(energy, study)
    energy.set_xlabel("iterations")
    energy.set_xlim(0, study.iterations)
    figure.legend(loc="outside upper center", ncols=3, handlelength=2.2, columnspacing=1.4)
    figure.align_ylabels()
    add_caption(figure, _caption(study))
    return figure


def _draw_energy(axes: Axes, study: Study) -> None:
    """Joules so far, the budget as a line, and at the end of each the share that it took."""
    largest = max(study.limit_j, *(each.energy_j for each in study.contenders))
    unit, _ = units.same_unit([largest], "J")
    scale = JOULES.get(unit, 1.0)
    for curve in study.curves:
        joules = np.array([0.0, *curve.energy_j]) / scale
        axes.plot([0, *curve.steps], joules, **LOOKS.get(curve.name, {}))
    axes.axhline(study.limit_j / scale, color=INK, linestyle=(0, (1, 1.5)), linewidth=1.0)
    axes.annotate(
        f"budget {study.budget}: {units.joules(study.limit_j)}",
        (0, study.limit_j / scale),
        xytext=(3, 2),
        textcoords="offset points",
        fontsize=7,
        va="bottom",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0},
    )
    axes.set_ylim(0, 1.08 * largest / scale)
    axes.set_ylabel(f"{study.provenance.metered}\nenergy ({unit})")
    ends = [each.energy_j / scale for each in study.contenders]
    for each, height in zip(study.contenders, _apart(ends, 0.1 * largest / scale), strict=True):
        axes.annotate(
            units.percent(study.share(each)),
            (study.iterations, height),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=LOOKS.get(each.name, {}).get("color", INK),
            annotation_clip=False,
        )


def _caption(study: Study) -> str:
    return (
        f"{study.model} on {study.data}, batches of {study.batch_size}, {study.optimizer}."
        f" Joules are {study.provenance.origin};"
        f" percentages are of the full model's. {study.device}; {study.when[:10]}."
    )


def _smoothed(values: Sequence[float]) -> list[float]:
    """A running mean over a tenth of the values, narrower towards both ends."""
    most, last = len(values) // 20, len(values) - 1
    reaches = (min(at, last - at, most) for at in range(len(values)))
    return [fmean(values[at - reach : at + reach + 1]) for at, reach in enumerate(reaches)]


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights moved up where they stand closer than the gap, for labels that can all be read."""
    moved = list(heights)
    order = sorted(range(len(moved)), key=moved.__getitem__)
    for lower, upper in itertools.pairwise(order):
        moved[upper] = max(moved[upper], moved[lower] + gap)
    return moved
