"""Tables: how numbers and rows are put before a reader, as plain text or as HTML.

A `Page` is a title, a table and some facts; every result of ampere shows itself as one. The numbers
in one column of a table share their unit, so that they can be compared and added by eye.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")

UNKNOWN = "unknown"

_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
_ORIGINS = {
    "counter": "measured by a hardware counter",
    "sensor": "measured by a power sensor",
    "battery": "measured at the battery",
    "external": "measured outside ampere",
    "modelled": "modelled from CPU time, not measured",
    "simulated": "simulated, not measured",
    "recorded": "replayed from a recording, not measured now",
}


def origin(provenance: str | None) -> str:
    """What joules of this provenance are: it completes the sentence "joules are ..."."""
    return "of unknown origin" if provenance is None else _ORIGINS[provenance]


def joules(energy_j: float) -> str:
    """`1.23 mJ`, `45.6 J`, `1.20 kJ`."""
    return _with_prefix(energy_j, "J")


def watts(power_w: float) -> str:
    """`850 mW`, `2.70 W`."""
    return _with_prefix(power_w, "W")


def watt_hours(energy_j: float) -> str:
    """Joules in the unit of batteries: `12.9 mWh`, `15.0 Wh`."""
    return _with_prefix(energy_j / 3600, "Wh")


def flops(count: float) -> str:
    """`743 MFLOP`."""
    return _with_prefix(count, "FLOP")


def seconds(time_s: float) -> str:
    """`2.31 ms`, `12.0 s`, `1 min 5 s`, `1 h 12 min`, `2 d 3 h`."""
    if not math.isfinite(time_s) or abs(time_s) < 59.95:
        return _with_prefix(time_s, "s")
    for size, unit, smaller_size, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        whole, rest = divmod(round(time_s / smaller_size), size // smaller_size)
        if whole:
            return f"{whole} {unit} {rest} {smaller}" if rest else f"{whole} {unit}"
    return UNKNOWN


def percent(share: float | None) -> str:
    """A share in percent: `26.5 %`."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    return f"{_rounded(100 * share, 1)} %"


def number(count: float) -> str:
    """`48,120`."""
    return f"{count:,.0f}"


def plural(count: int, noun: str) -> str:
    """`1 step`, `2,000 steps`."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def same_unit(values: Sequence[float], unit: str) -> tuple[str, list[str]]:
    """A column of numbers and the unit they share: four digits for the largest of them."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    power, decimals = _scale(largest, digits=4)
    texts = [
        _rounded(value / 10.0**power, decimals) if math.isfinite(value) else UNKNOWN
        for value in values
    ]
    return f"{_PREFIXES[power]}{unit}", texts


def prefix_of(largest: float, unit: str) -> tuple[str, float]:
    """The unit in which a number is short, such as `mJ`, and its size."""
    power, _ = _scale(largest, digits=3)
    return f"{_PREFIXES[power]}{unit}", 10.0**power


def bar(value: float, largest: float, length: int = 40) -> str:
    """A bar of blocks, `length` of them for the largest value."""
    return "█" * max(0, round(length * value / largest)) if largest > 0 else ""


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """Items of the same key together, in the order in which each key came first."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def times(name: str, count: int) -> str:
    """`conv2 ×3` for three of the same."""
    return f"{name} ×{count}" if count > 1 else name


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


@dataclass(frozen=True)
class Page:
    """A result as it is shown: title, table, facts of a name and a text each."""

    title: str
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


def _scale(largest: float, digits: int) -> tuple[int, int]:
    """The power of ten of a prefix, and the decimals that leave this many digits."""
    if largest == 0 or not math.isfinite(largest):
        return 0, digits - 1
    exponent = int(f"{largest:.{digits - 1}e}".partition("e")[2])  # after rounding: 999.9 is 1000
    power = min(max(3 * (exponent // 3), min(_PREFIXES)), max(_PREFIXES))
    return power, max(0, digits - 1 - (exponent - power))


def _rounded(value: float, decimals: int) -> str:
    """A number with these decimals; what is little never looks like nothing."""
    if 0 < value < 0.5 / 10**decimals:
        return f"<{1 / 10**decimals:.{decimals}f}"
    return f"{value:.{decimals}f}"


def _with_prefix(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return f"0 {unit}"
    power, decimals = _scale(abs(value), digits=3)
    return f"{value / 10.0**power:.{decimals}f} {_PREFIXES[power]}{unit}"


def printable(text: str) -> str:
    """Names come from models and files of others: they must not steer the reader's terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def escaped(text: str) -> str:
    """The same for a page: nothing in it can be taken for HTML."""
    return html.escape(printable(text))


def _html_row(tag: str, cells: Sequence[str], sides: str) -> str:
    row = "".join(
        f'<{tag} style="text-align: {"right" if side == ">" else "left"}">{escaped(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{row}</tr>"
