"""A page in a notebook: HTML whose style stands in it, for light and dark notebooks alike.

Text has the notebook's own colour, lines are grey, and bars of a blue that is seen on white and on
black. A bar is the background of an empty element: where a notebook that is not trusted loses its
style, the numbers beside it are still there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ampere.core.shown.letters import escaped

if TYPE_CHECKING:
    from ampere.core.page import Page, Range

BLUE = "#2f86c6"  # 3.9 to 1 on white, 4.8 to 1 on #111111
GREY = "rgba(128,128,128,0.22)"
LINE = "1px solid rgba(128,128,128,0.45)"
TICK = 1.2  # percent of a strip: the mark of a value

_TABLE = "border-collapse:collapse;border:0;margin:0.4em 0"
_CELL = "padding:0.15em 0.7em;border:0;background:none"


def page_html(page: Page) -> str:
    """Title, intervals, table and facts; whatever stands in them is escaped."""
    parts = [f'<p style="margin:0.4em 0"><strong>{escaped(page.title)}</strong></p>']
    if page.ranges:
        parts.append(_table(_range_rows(page.ranges)))
    if page.headers:
        parts.append(_table(_rows(page)))
    if page.facts:
        parts.append(_table("".join(_fact(name, text) for name, text in page.facts)))
    return f'<div style="color:inherit;overflow-x:auto">{"".join(parts)}</div>'


def _table(rows: str) -> str:
    return f'<table style="{_TABLE}">{rows}</table>'


def _rows(page: Page) -> str:
    """Head, rows and total; a column with bars has them in a column of their own behind it."""
    bars = {page.headers.index(header): shares for header, shares in page.bars.items()}
    head = _row("th", page, page.headers, dict.fromkeys(bars, ""), f"border-bottom:{LINE}")
    body = "".join(
        _row("td", page, row, {i: _bar(shares, number) for i, shares in bars.items()})
        for number, row in enumerate(page.rows)
    )
    foot = ""
    if page.total:
        row = _row("th", page, page.total, dict.fromkeys(bars, ""), f"border-top:{LINE}")
        foot = f"<tfoot>{row}</tfoot>"
    return f"<thead>{head}</thead><tbody>{body}</tbody>{foot}"


def _row(
    tag: str, page: Page, cells: Sequence[str], bars: Mapping[int, str], line: str = ""
) -> str:
    sides = page.align or "<" * len(page.headers)
    parts = []
    for i, (cell, side) in enumerate(zip(cells, sides, strict=True)):
        parts.append(_cell(tag, escaped(cell), side, line))
        if i in bars:
            parts.append(_cell(tag, bars[i], "<", line))
    return f"<tr>{''.join(parts)}</tr>"


def _cell(tag: str, inside: str, side: str = "<", style: str = "", wrap: str = "nowrap") -> str:
    align = "right" if side == ">" else "left"
    own = f"{_CELL};text-align:{align};white-space:{wrap};vertical-align:top"
    return f'<{tag} style="{own}{f";{style}" if style else ""}">{inside}</{tag}>'


def _bar(shares: Sequence[float | None], number: int) -> str:
    """The bar of a row; what is no share has none."""
    share = shares[number] if number < len(shares) else None
    if share is None or not math.isfinite(share):
        return ""
    return _strip("6em", _stripe(BLUE, 0.0, 100 * min(max(share, 0.0), 1.0)))


def _range_rows(ranges: Sequence[Range]) -> str:
    """Intervals below each other on one scale from 0, each with its text."""
    largest = max((each.high for each in ranges if math.isfinite(each.high)), default=0.0)
    return "".join(
        f"<tr>{_cell('td', escaped(each.name))}{_cell('td', _span(each, largest))}"
        f"{_cell('td', escaped(each.text))}</tr>"
        for each in ranges
    )


def _span(each: Range, largest: float) -> str:
    """From low to high, with a mark in the text's colour at the value; empty if it is unknown."""
    if largest <= 0 or not all(map(math.isfinite, (each.low, each.value, each.high))):
        return ""
    scale = (100 - TICK) / largest
    low, value, high = (max(0.0, scale * end) for end in (each.low, each.value, each.high))
    mark = _stripe("currentColor", value, value + TICK)
    return _strip("16em", mark, _stripe(BLUE, low, high + TICK))


def _strip(width: str, *stripes: str) -> str:
    """A grey strip with others on it, the uppermost first; for whoever sees."""
    layers = ",".join([*stripes, f"linear-gradient({GREY},{GREY})"])
    shape = f"display:inline-block;vertical-align:middle;height:0.7em;width:{width}"
    return f'<span aria-hidden="true" style="{shape};background:{layers}"></span>'


def _stripe(colour: str, begin: float, end: float) -> str:
    """From one percentage of a strip to another."""
    ends = (f"transparent {begin:.1f}%,{colour} {begin:.1f}%", f"{colour} {end:.1f}%")
    return f"linear-gradient(to right,{ends[0]},{ends[1]},transparent {end:.1f}%)"


def _fact(name: str, text: str) -> str:
    first = _cell("td", escaped(name), style="opacity:0.75")
    return f"<tr>{first}{_cell('td', escaped(text), wrap='normal')}</tr>"
