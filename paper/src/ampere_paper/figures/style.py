"""Style: figures as a paper prints them, drawn with matplotlib, all in one style.

A figure is as wide as a column of a paper, its letters as large as those of a caption.
Nothing outside is changed: neither matplotlib's settings, nor its backend, nor pyplot's figures.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampere.core.boundary.files import writing_beside
from ampere.core.page import printable
from ampere.errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN_IN, PAGE_IN = 3.5, 7.2
DPI = 300
CAPTION_SIZE, CAPTION_LETTERS = 5.5, 82
SUFFIXES = (".png", ".svg", ".pdf")
INK, PALE = "#333333", "#888888"
# Okabe and Ito, "Color universal design" (2008): told apart by everybody.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PINK, YELLOW = "#56B4E9", "#CC79A7", "#B8A000"  # the last one darker, to be seen on white
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


def save(figure: Figure, path: str | os.PathLike[str], *, own: bool = False) -> None:
    """Write a figure, whole or not at all; the same figure is the same file.

    Args:
        figure: What is drawn.
        path: Where it goes.
        own: As `writing_beside` takes it: the name is of ampere's choice.

    Raises:
        DataError: The suffix is of no figure, or the path cannot be written.
    """
    target = refuse_other_suffixes(path)
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        suffix = target.suffix.lower()
        with writing_beside(target, own=own) as part:
            figure.savefig(part, format=suffix[1:], dpi=DPI, metadata=dates.get(suffix))
        figure.set_layout_engine("none")  # places are found once, for all files of a figure
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from None


def refuse_other_suffixes(path: str | os.PathLike[str]) -> Path:
    """The path, if it is one of a figure: better known before anything is drawn."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise DataError(f"{target} is no figure: name it with {', '.join(SUFFIXES)} at its end")
    return target
