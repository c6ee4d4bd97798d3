"""Tables of the benchmarks of fleets."""

from __future__ import annotations

from collections.abc import Sequence


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
