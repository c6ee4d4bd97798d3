"""Words: how experiments say what they found, in sentences and in cells of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import fmean

from ampere.core.page import Page
from ampere.core.types import Json
from ampere.meters.base import Provenance


def span(values: Sequence[float], unit: str = "%", form: str = ".1f") -> str:
    """`3.1 to 9.2 %`, or `3.1 %` where all are alike."""
    low, high = format(min(values), form), format(max(values), form)
    return f"{low} {unit}".strip() if low == high else f"{low} to {high} {unit}".strip()


def holds(verdicts: Sequence[bool], noun: str = "device") -> str:
    """Whether the claim holds, and on how many of those that were looked at."""
    count, total = sum(verdicts), len(verdicts)
    if total == 1:
        return f"the claim {'holds' if count else 'does not hold'} on the one {noun} looked at"
    share = {0: f"none of {total}", total: f"all {total}"}.get(count, f"{count} of {total}")
    return f"the claim holds on {share} {noun}s"


def mean_errors(rows: Sequence[Mapping[str, Json]]) -> str:
    """`MAPE, mean over devices: FLOPs 26.9 %, ...`, of scores."""
    flops, paper, additive = (
        fmean(row["mape"][method] for row in rows) for method in ("flops", "paper", "additive")
    )
    return (
        f"MAPE, mean over devices: FLOPs {flops:.1f} %, the paper's method {paper:.1f} %, additive"
        f" {additive:.1f} %"
    )


def beats_flops(rows: Sequence[Mapping[str, Json]]) -> str:
    """Whether the paper's method does."""
    return holds([row["mape"]["paper"] < row["mape"]["flops"] for row in rows])


def cell(value: float | None, form: str = ".1f") -> str:
    """A number of a table, or a dash."""
    return "–" if value is None else format(value, form)


def table_of(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Page:
    """A table: words to the left, and numbers to the right from the first column of them on."""
    first = next((i for i in range(len(headers)) if rows and _is_number(rows[0][i])), len(headers))
    align = "<" * first + ">" * (len(headers) - first)
    return Page(title, headers=tuple(headers), rows=[tuple(row) for row in rows], align=align)


def _is_number(text: str) -> bool:
    """Whether it is one, or several, perhaps with a unit; `1 thread` is a name."""
    return (text[:1].isdigit() or text[:1] in "–-+") and not re.search(r"[A-Za-z]{3}", text)


def where(row: Mapping[str, Json]) -> tuple[str, str]:
    """The first two cells of a table's row."""
    return str(row["title"]), Provenance(row["provenance"]).metered
