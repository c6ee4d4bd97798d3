"""A result as it is shown: a title, a table and some facts, as plain text or as HTML.

Every result of ampere shows itself as a `Page`. Names come from models and files of others: they
are made harmless, for terminals (`printable`) and for browsers (`escaped`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from ampere.core.shown.letters import escaped as escaped
from ampere.core.shown.letters import printable as printable
from ampere.core.shown.notebook import page_html


@dataclass(frozen=True)
class Range:
    """A value between two ends, which a notebook draws; plain text has it in words already."""

    name: str
    low: float
    value: float
    high: float
    text: str


@dataclass(frozen=True)
class Page:
    """A result as it is shown: title, table, facts of a name and a text each.

    A notebook also draws `ranges`, on one scale from 0, and `bars`: by the header of their column,
    a share from 0 to 1 of each row, or None.
    """

    title: str
    _: KW_ONLY
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    align: str = ""
    total: Sequence[str] | None = None
    facts: Sequence[tuple[str, str]] = ()
    bars: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    ranges: Sequence[Range] = ()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def text(self) -> str:
        """As plain text."""
        parts = [printable(self.title)]
        if self.headers:
            parts.append(table(self.headers, self.rows, self.align, self.total))
        if self.facts:
            width = max(len(name) for name, _ in self.facts)
            parts.append(
                "\n".join(
                    f"{printable(name):{width}}  {printable(text)}" for name, text in self.facts
                )
            )
        return "\n\n".join(parts)

    def html(self) -> str:
        """As HTML, for notebooks; whatever stands in it is escaped."""
        return page_html(self)


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    align: str = "",
    total: Sequence[str] | None = None,
) -> str:
    """Aligned columns of text; `align` has `<` or `>` for each, left if it is not given."""
    grid = [
        [printable(cell) for cell in row] for row in (headers, *rows, *([total] if total else []))
    ]
    sides = align or "<" * len(headers)
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in grid
    ]
    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    lines.insert(1, rule)
    if total:
        lines.insert(-1, rule)
    return "\n".join(lines)


def bar(value: float, largest: float, length: int = 40) -> str:
    """A bar of blocks, `length` of them for the largest value."""
    return "█" * max(0, round(length * value / largest)) if largest > 0 else ""
