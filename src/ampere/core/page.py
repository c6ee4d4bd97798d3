"""A result as it is shown: a title, a table and some facts, as plain text or as HTML.

Every result of ampere shows itself as a `Page`. Names come from models and files of others: they
are made harmless here, for terminals (`printable`) and for browsers (`escaped`).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True)
class Page:
    """A result as it is shown: title, table, facts of a name and a text each."""

    title: str
    _: KW_ONLY
    headers: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    align: str = ""
    total: Sequence[str] | None = None
    facts: Sequence[tuple[str, str]] = ()

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
        parts = [f"<p><strong>{escaped(self.title)}</strong></p>"]
        if self.headers:
            sides = self.align or "<" * len(self.headers)
            body = "".join(_html_row("td", row, sides) for row in self.rows)
            foot = f"<tfoot>{_html_row('th', self.total, sides)}</tfoot>" if self.total else ""
            head = _html_row("th", self.headers, sides)
            parts.append(f"<table><thead>{head}</thead><tbody>{body}</tbody>{foot}</table>")
        if self.facts:
            facts = "".join(
                f"<dt>{escaped(name)}</dt><dd>{escaped(text)}</dd>" for name, text in self.facts
            )
            parts.append(f"<dl>{facts}</dl>")
        return f"<div>{''.join(parts)}</div>"


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


def printable(text: str) -> str:
    """Names come from models and files of others: they must not steer the reader's terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters: what is too much is left out of its middle."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def escaped(text: str) -> str:
    """The same for a page: nothing in it can be taken for HTML."""
    return html.escape(printable(text))


def _html_row(tag: str, cells: Sequence[str], sides: str) -> str:
    row = "".join(
        f'<{tag} style="text-align: {"right" if side == ">" else "left"}">{escaped(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{row}</tr>"
