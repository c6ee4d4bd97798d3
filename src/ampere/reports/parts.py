"""Parts: what a page is made of, as plain data; `templates/parts.html` shows them.

Texts may come from files of others, with anything in them: nothing here is HTML but the charts,
which escape what they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

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


Part = Text | Quote | Facts | Table | Figure | Picture | Chooser | Toggles


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
