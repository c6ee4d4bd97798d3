"""Folding: long lines as a terminal shows them best; what is piped stays as it is.

Facts go on below where their text begins, after their name or names. In tables wide columns of
words are made narrower, and their cells go on below; names of operations that are joined by `+` are
divided there. Commands to be copied and JSON stay.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence

FACT = re.compile(r"\S.*  +(?=\S)")  # its name or names, and the gap before its text
RULE = re.compile(r"─+")  # below the heads of a table, and above its total
JOINT = r"(?<=[a-z\d]\+)(?=[a-z])"  # conv2d3x3+relu may go on below after its +
GAP = 2  # blanks between columns


class _Cell(textwrap.TextWrapper):
    """Words of a table's cell, and those that a `+` joins."""

    wordsep_simple_re = re.compile(rf"(\s+)|{JOINT}")


def folded(text: str) -> str:
    """A text for people, for the terminal that is there."""
    columns = shutil.get_terminal_size().columns
    return "\n".join(line for block in _blocks(text) for line in _folded_block(block, columns))


def _blocks(text: str) -> Iterator[list[str]]:
    """Tables whole, from their heads to the blank line behind them, other lines alone."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        end = at + 1
        if end < len(lines) and RULE.fullmatch(lines[end]):
            end = next((i for i in range(end, len(lines)) if not lines[i]), len(lines))
        yield lines[at:end]
        at = end


def _folded_block(lines: list[str], columns: int) -> list[str]:
    if max(map(len, lines)) <= columns:
        return lines
    return _line(lines[0], columns) if len(lines) == 1 else _table(lines, columns)


def _line(line: str, columns: int) -> list[str]:
    begin = FACT.match(line)
    name = begin[0] if begin else ""
    rest = line[len(name) :]
    is_data = line.startswith((" ", "{", "[")) or rest.startswith(("{", "["))
    if is_data or len(name) > columns // 2:
        return [line]
    return _wrapped(rest, columns, first=name, below=" " * (len(name) or GAP))


def _wrapped(text: str, columns: int, *, first: str = "", below: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        columns,
        initial_indent=first,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(lines: list[str], columns: int) -> list[str]:
    """The same table, as narrow as it must be; as it is, if words are too long for that."""
    spans = _spans([line for line in lines if not RULE.fullmatch(line)])
    rows = [[line[start:end] for start, end in spans] for line in lines]
    cells = [row for row, line in zip(rows, lines, strict=True) if not RULE.fullmatch(line)]
    is_left = [_is_left(column) for column in zip(*cells, strict=True)]
    widths = _widths(cells, is_left, columns - GAP * (len(spans) - 1))
    if widths is None:
        return lines
    rule = "─" * (sum(widths) + GAP * (len(widths) - 1))
    shown = []
    for row, line in zip(rows, lines, strict=True):
        shown += [rule] if RULE.fullmatch(line) else _row(row, widths, is_left)
    return shown


def _spans(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where columns begin and end: between them all lines are blank for two letters or more."""
    width = max(map(len, lines))
    filled = "".join(
        "x" if any(line[i : i + 1].strip() for line in lines) else " " for i in range(width)
    )
    return [match.span() for match in re.finditer(r"x+(?: x+)*", filled)]


def _is_left(column: Sequence[str]) -> bool:
    return all(not cell.strip() or not cell.startswith(" ") for cell in column)


def _widths(cells: Sequence[Sequence[str]], is_left: Sequence[bool], room: int) -> list[int] | None:
    """How wide columns shall be: the widest give way first. Numbers stay whole, heads may fold."""
    widths, least = [], []
    for column, left in zip(zip(*cells, strict=True), is_left, strict=True):
        head, *others = (cell.strip() for cell in column)
        words = re.split(rf"\s+|{JOINT}", " ".join(others)) if left else []
        widths.append(max(map(len, (head, *others))))
        least.append(max(map(len, (*head.split(), *(words if left else others))), default=0))
    while sum(widths) > room:
        wide = max(range(len(widths)), key=lambda i: widths[i] if widths[i] > least[i] else 0)
        if widths[wide] <= least[wide]:
            return None
        widths[wide] -= 1
    return widths


def _row(row: Sequence[str], widths: Sequence[int], is_left: Sequence[bool]) -> list[str]:
    """A row of the table, as many lines high as its highest cell."""
    folds = [
        _Cell(max(1, width), break_long_words=False, break_on_hyphens=False).wrap(cell.strip())
        for cell, width in zip(row, widths, strict=True)
    ]
    lines = []
    for i in range(max(1, *map(len, folds))):
        parts = [fold[i] if i < len(fold) else "" for fold in folds]
        padded = [
            f"{part:{'<' if left else '>'}{width}}"
            for part, width, left in zip(parts, widths, is_left, strict=True)
        ]
        lines.append((" " * GAP).join(padded).rstrip())
    return lines
