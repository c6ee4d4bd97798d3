"""Figures: results as a paper prints them, drawn with matplotlib, all in one style.

A figure is as wide as a column of a paper, its letters as large as those of a caption. What tells
models apart is colour and line style both, so that it survives colour blindness and a grey printer.
Nothing outside is changed: neither matplotlib's settings, nor its backend, nor pyplot's figures.
"""

from __future__ import annotations

import itertools
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from ampere.core import units
from ampere.core.page import printable
from ampere.errors import DataError
from ampere.pruning.budget import JOULES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ampere_paper.study import Study

COLUMN_IN, PAGE_IN = 3.5, 7.2
PANEL_IN = 1.35
DPI = 300
CAPTION_SIZE, CAPTION_LETTERS = 5.5, 82
SUFFIXES = (".png", ".svg", ".pdf")
INK, PALE = "#333333", "#888888"
# Okabe and Ito, "Color universal design" (2008): told apart by everybody.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PINK, YELLOW = "#56B4E9", "#CC79A7", "#B8A000"  # the last one darker, to be seen on white
LOOKS: Mapping[str, Mapping[str, Any]] = {
    "full": {"color": INK, "linestyle": "-"},
    "energy": {"color": BLUE, "linestyle": "-"},
    "flops": {"color": RED, "linestyle": (0, (4, 1.5))},
}
LABELS = {"full": "full model", "energy": "energy-guided", "flops": "FLOPs-guided"}
STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it along: the same everywhere
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.titlesize": 8,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "text.color": INK,
    "text.parse_math": False,  # names come from others: a $ is a dollar
    "xtick.color": PALE,
    "ytick.color": PALE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,  # letters stay letters: many journals refuse others
    "svg.hashsalt": "ampere",  # the same figure is the same file
}


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


@contextmanager
def styled() -> Iterator[None]:
    """The common style in matplotlib, for as long as figures are made and written.

    Raises:
        DataError: It is missing.
    """
    try:
        from matplotlib import style
    except ImportError:
        raise DataError("figures need matplotlib: pip install ampere-paper") from None
    with style.context(["default", STYLE]):
        yield


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure, whose parts find their places by themselves."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_in, height_in), layout="constrained")


def add_caption(figure: Figure, text: str) -> None:
    """Small print below everything: what the joules are, and whose."""
    letters = round(CAPTION_LETTERS * figure.get_figwidth() / COLUMN_IN)
    lines = textwrap.fill(printable(text), letters)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=CAPTION_SIZE, color=PALE)


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure; the same figure is the same file.

    Raises:
        DataError: The suffix is of no figure, or the path cannot be written.
    """
    target = refuse_other_suffixes(path)
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        figure.savefig(target, dpi=DPI, metadata=dates.get(target.suffix.lower()))
        figure.set_layout_engine("none")  # places are found once, for all files of a figure
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from None


def refuse_other_suffixes(path: str | os.PathLike[str]) -> Path:
    """The path, if it is one of a figure: better known before anything is drawn."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise DataError(f"{target} is no figure: name it with {', '.join(SUFFIXES)} at its end")
    return target


def _smoothed(values: Sequence[float]) -> list[float]:
    """A running mean over a tenth of the values, narrower towards both ends."""
    most, last = len(values) // 20, len(values) - 1
    reaches = (min(at, last - at, most) for at in range(len(values)))
    return [fmean(values[at - reach : at + reach + 1]) for at, reach in enumerate(reaches)]


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights moved up where they stand closer than the gap, for labels that can all be read."""
    found = list(heights)
    order = sorted(range(len(found)), key=found.__getitem__)
    for lower, upper in itertools.pairwise(order):
        found[upper] = max(found[upper], found[lower] + gap)
    return found
