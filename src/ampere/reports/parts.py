"""Parts: what a page is made of, as plain data; `templates/parts.html` shows them.

Texts may come from files of others, with anything in them: nothing here is HTML but the charts,
which escape what they were given.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ampere.core.page import printable
from ampere.reports.svg import Svg

LONG_TEXT = 32  # letters of a text that is broken into lines


@dataclass(frozen=True)
class Text:
    """A paragraph, or a warning; what stands between ` and ` is code."""

    kind: ClassVar[str] = "text"
    text: str
    warning: bool = False


@dataclass(frozen=True)
class Quote:
    """What somebody else says."""

    kind: ClassVar[str] = "quote"
    text: str


@dataclass(frozen=True)
class Facts:
    """Names and what there is to say of each."""

    kind: ClassVar[str] = "facts"
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of texts; `align` has `<` or `>` for each column. A long one scrolls."""

    kind: ClassVar[str] = "table"
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str

    @property
    def column_classes(self) -> list[str]:
        """Of the columns: numbers, texts in a line each, and long texts, which need some room."""
        columns = zip(self.headers, *self.rows, strict=True)
        return [
            "number" if side == ">" else "long" if max(map(len, column)) > LONG_TEXT else "short"
            for column, side in zip(columns, self.align, strict=True)
        ]


@dataclass(frozen=True)
class Figure:
    """A chart with what stands below it; its name is that of its file."""

    kind: ClassVar[str] = "figure"
    name: str
    svg: Svg
    caption: str
    label: str = ""  # by which it is chosen among others; its name if there is none


@dataclass(frozen=True)
class Picture:
    """A drawing of another program, an SVG file that stays as it is; `text` is what it shows."""

    kind: ClassVar[str] = "picture"
    svg: bytes
    text: str


@dataclass(frozen=True)
class Chooser:
    """Several figures of which one is seen at a time; without JavaScript, all."""

    kind: ClassVar[str] = "chooser"
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Toggles:
    """A bar chart whose groups can be hidden, with what the rest costs together.

    Its boxes to tick are of no use, so hidden, without JavaScript.
    """

    kind: ClassVar[str] = "toggles"
    figure: Figure
    groups: Sequence[str]
    total: str
    unit: str
    unit_j: float  # how many joules the unit is


@dataclass(frozen=True)
class Gauge:
    """A bar as wide as its section, and what its colours are: a class, a name, a text each."""

    kind: ClassVar[str] = "gauge"
    svg: Svg
    legend: Sequence[tuple[str, str, str]]
    caption: str


@dataclass(frozen=True)
class Timeline:
    """What a device does over time, as wide as its section; what stands above it, in words."""

    kind: ClassVar[str] = "timeline"
    name: str
    note: str
    svg: Svg


@dataclass(frozen=True)
class Line:
    """Values over seconds; None where nothing is known. Its style is a name that live.js knows."""

    label: str
    style: str
    time_s: Sequence[float]
    values: Sequence[float | None]


@dataclass(frozen=True)
class Plot:
    """Lines over time, drawn and redrawn by live.js, which only pages of runs have."""

    kind: ClassVar[str] = "plot"
    name: str
    unit: str
    lines: Sequence[Line]
    caption: str

    @property
    def data(self) -> str:
        """What is drawn, as JSON; lines without times have those of the first one."""
        first_s = self.lines[0].time_s
        lines = [
            {
                "label": printable(line.label),
                "style": line.style,
                "time_s": None if n and line.time_s == first_s else [*map(_rounded, line.time_s)],
                "values": [None if value is None else _rounded(value) for value in line.values],
            }
            for n, line in enumerate(self.lines)
        ]
        return json.dumps(
            {"unit": self.unit, "lines": lines}, allow_nan=False, separators=(",", ":")
        )


def _rounded(value: float) -> float:
    """A number as short as a picture allows."""
    return float(f"{value:.6g}")


Part = Text | Quote | Facts | Table | Figure | Picture | Chooser | Toggles | Gauge | Timeline | Plot


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; on a wide screen two halves stand side by side."""

    title: str
    parts: tuple[Part, ...]
    half: bool = False

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Its charts, in the order in which they stand."""
        return tuple(figure for part in self.parts for figure in _figures_of(part))


def _figures_of(part: Part) -> tuple[Figure, ...]:
    if isinstance(part, Figure):
        return (part,)
    if isinstance(part, Chooser):
        return part.figures
    return (part.figure,) if isinstance(part, Toggles) else ()
