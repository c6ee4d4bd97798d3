"""Accuracy against the number of measurements, by both methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.progress import Event
from ampere.core.groups import grouped
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.core.variants import Variant
from ampere.errors import AmpereError
from ampere.estimators.additive import fit_additive
from ampere.estimators.paper import fit_paper
from ampere.records.measurement import Measurement
from ampere_paper import drawing
from ampere_paper.experiments.experiment import Experiment, cell, holds
from ampere_paper.laboratory import Laboratory
from ampere_paper.plans import FOUR
from ampere_paper.surveys import Survey, surveys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETWORKS = (4, 6, 8, 12, 16, 24, 32, 40)
POINTS = (2, 3, 4, 6, 10, 14)


def _measure(lab: Laboratory) -> Json:
    rows = []
    for found in surveys(lab, FOUR):
        lab.watch(Event(f"{found.bench.name} {found.family}: fewer measurements", 0, 1, 0.0))
        rows.append(
            {
                **found.place,
                "additive": _additive(found),
                "paper": _paper(found),
                "flops": found.evaluation.mape("flops"),
                "repeat": found.evaluation.mape("repeat"),
            }
        )
    return rows


def _additive(found: Survey) -> list[list[float]]:
    """MAPE after the first so many networks that the prober asked for."""
    most = len(found.networks)
    counts = {n for n in (*NETWORKS, most // 2) if NETWORKS[0] <= n < most} | {most}
    return [[n, found.mape(fit_additive(found.networks[:n]))] for n in sorted(counts)]


def _paper(found: Survey) -> list[list[float]]:
    """MAPE after so many points of each kind, in the order in which they were asked for."""
    scores: dict[int, float] = {}
    for points in POINTS:
        rows = first_points(found.variants, points)
        if len(rows) in scores:
            continue
        try:
            scores[len(rows)] = found.mape(fit_paper(rows))
        except AmpereError:  # too few to tell all kinds apart
            continue
    return [[n, mape] for n, mape in sorted(scores.items())]


def first_points(variants: Sequence[Measurement], points: int) -> list[Measurement]:
    """The first rows of each kind that variants isolate."""
    seen: Counter[str] = Counter()
    chosen = []
    for row in variants:
        kind = Variant(row.layers).subject.kind.name
        seen[kind] += 1
        if seen[kind] <= points:
            chosen.append(row)
    return chosen


def _draw(data: Json) -> Mapping[str, Figure]:
    benches = grouped(data, lambda row: row["bench"])
    figure, panels = drawing.grid(len(benches), sharey=True)
    for rows, axes in zip(benches, panels, strict=True):
        for method in ("paper", "additive"):
            look = drawing.METHODS[method]
            for i, row in enumerate(rows):
                counts, mape = np.array(row[method]).reshape(-1, 2).T
                axes.loglog(counts, mape, look.marker, linestyle="-", linewidth=0.8, markersize=2.2,
                            color=look.color, alpha=0.8, markeredgewidth=0,
                            label=None if i else look.label)  # fmt: skip
        axes.axhline(fmean(row["flops"] for row in rows), linestyle="--", linewidth=0.9,
                     color=drawing.METHODS["flops"].color, label="FLOPs, mean")  # fmt: skip
        axes.axhline(fmean(row["repeat"] for row in rows), linestyle=":", linewidth=0.9,
                     color="black", label="metered again, mean")  # fmt: skip
        axes.set_title(drawing.heading(rows[0]))
        axes.set_xlabel("networks measured")
        drawing.plain_log(axes.xaxis)
    panels[0].set_ylabel("MAPE (%)")
    drawing.plain_log(panels[0].yaxis)
    text = "A line is a family; errors on unseen members."
    return {"samples": drawing.finish(figure, data, text, legend=4)}


def _at(row: Json, method: str, most: float) -> float | None:
    """MAPE with at most so many measurements."""
    known = [mape for count, mape in row[method] if count <= most]
    return known[-1] if known else None


def _table(data: Json) -> Page:
    rows = [
        (
            drawing.FAMILIES[row["family"]],
            *drawing.where(row),
            *(cell(_at(row, "additive", most)) for most in (6, 12, 24, 40)),
            *(cell(_at(row, "paper", most)) for most in (24, 40, 1000)),
        )
        for row in data
    ]
    headers = ("family", "device", "joules", "additive: 6", "12", "24", "40", "paper's: 24", "40",
               "all")  # fmt: skip
    title = "MAPE in percent by the number of networks measured, at most"
    return drawing.page(title, headers, rows)


def _sentence(data: Json) -> str:
    def ends(method: str) -> tuple[float, float]:
        return fmean(row[method][0][1] for row in data), fmean(row[method][-1][1] for row in data)

    usable = [row for row in data if row["paper"]]
    fewer = (
        [row["paper"][-1][1] <= row["paper"][0][1] for row in usable]
        + [row["additive"][-1][1] <= row["additive"][0][1] for row in data]
    )  # fmt: skip
    half = [_at(row, "additive", row["additive"][-1][0] / 2) for row in data]
    gained = fmean(
        (middle if middle is not None else row["additive"][0][1]) - row["additive"][-1][1]
        for row, middle in zip(data, half, strict=True)
    )
    first, last = ends("additive")
    most = max(row["additive"][-1][0] for row in data)
    return (
        f"With the additive method MAPE goes from {first:.1f} % after"
        f" {data[0]['additive'][0][0]:.0f} networks to {last:.1f} % after {most:.0f}, mean over"
        f" families and devices; the second half of the networks brings {gained:.1f} points. That"
        f" more samples improve accuracy: {holds(fewer, 'curve')}."
    )


SAMPLES = Experiment(
    "samples",
    "Accuracy against the number of measurements",
    "More samples improve the accuracy, up to a point of diminishing returns (a summary of the"
    " paper; it gives no number).",
    _measure,
    _draw,
    _table,
    _sentence,
    FOUR,
    fitting_s=2.1,
)
