"""Experiment: a figure or table of the paper, what it claims, and how it is made here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from ampere.core.page import Page
from ampere.core.types import Json
from ampere.reports.parts import Part
from ampere_paper.benches import Bench
from ampere_paper.laboratory import Laboratory
from ampere_paper.plans import Sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _none(sizes: Sizes) -> int:
    return 0


def _everywhere(bench: Bench) -> bool:
    return True


def _nothing(data: Json) -> tuple[Part, ...]:
    return ()


@dataclass(frozen=True)
class Experiment:
    """Plain data in the middle: figures, tables and sentences are made anew without measuring.

    Args:
        name: As it is asked for: `fig8`.
        title: What it shows.
        claim: What the paper says, and where.
        measure: Makes the data, as plain JSON. `NotCovered` where none of the benches can tell.
        draw: The figures, by the name of their files; within `figures.styled`.
        table: The numbers.
        sentence: What was found, and whether the claim holds here.
        families: Of which it needs surveys.
        where: On which benches it needs them.
        fitting_s: Seconds of further fits for each survey, roughly.
        networks: That it measures besides, on a bench of these sizes.
        figures: Names that figures may have; its own unless given.
        recorded: Whether it looks at recorded energies, where there are some.
        parts: What a page shows besides, in a browser.
    """

    name: str
    title: str
    claim: str
    measure: Callable[[Laboratory], Json]
    draw: Callable[[Json], Mapping[str, Figure]]
    table: Callable[[Json], Page]
    sentence: Callable[[Json], str]
    families: tuple[str, ...] = ()
    networks: Callable[[Sizes], int] = _none
    figures: tuple[str, ...] = ()
    recorded: bool = False
    parts: Callable[[Json], tuple[Part, ...]] = _nothing
    where: Callable[[Bench], bool] = _everywhere
    fitting_s: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "figures", self.figures or (self.name,))


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
