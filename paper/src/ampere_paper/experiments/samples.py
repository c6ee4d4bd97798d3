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
from ampere.estimators.fitting import fit_additive
from ampere.estimators.paper import fit_paper
from ampere.records.measurement import Measurement
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import cell, holds, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import FOUR
from ampere_paper.lab.trials import Trial, trials_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETWORKS = (4, 6, 8, 12, 16, 24, 32, 40)
POINTS = (2, 3, 4, 6, 10, 14)


class Samples(Experiment):
    """Accuracy against the number of measurements."""

    name = "samples"
    title = "Accuracy against the number of measurements"
    claim = (
        "More samples improve the accuracy, up to a point of diminishing returns (a summary"
        " of the paper; it gives no number)."
    )
    figures = ("samples",)
    families = FOUR
    fitting_s = 2.1

    def measure(self, lab: Laboratory) -> Json:
        rows = []
        for trial in trials_of(lab, self.families):
            lab.watch(Event(f"{trial.bench.name} {trial.family}: fewer measurements", 0, 1, 0.0))
            rows.append(
                {
                    **trial.place,
                    "additive": _additive(trial),
                    "paper": _paper(trial),
                    "flops": trial.evaluation.mape("flops"),
                    "repeat": trial.evaluation.mape("repeat"),
                }
            )
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        benches = grouped(data, lambda row: row["bench"])
        figure, panels = canvas.grid(len(benches), sharey=True)
        for rows, axes in zip(benches, panels, strict=True):
            for method in ("paper", "additive"):
                look = canvas.METHODS[method]
                for i, row in enumerate(rows):
                    counts, mape = np.array(row[method]).reshape(-1, 2).T
                    axes.loglog(
                        counts,
                        mape,
                        look.marker,
                        linestyle="-",
                        linewidth=0.8,
                        markersize=2.2,
                        color=look.color,
                        alpha=0.8,
                        markeredgewidth=0,
                        label=None if i else look.label,
                    )
            axes.axhline(
                fmean(row["flops"] for row in rows),
                linestyle="--",
                linewidth=0.9,
                color=canvas.METHODS["flops"].color,
                label="FLOPs, mean",
            )
            axes.axhline(
                fmean(row["repeat"] for row in rows),
                linestyle=":",
                linewidth=0.9,
                color="black",
                label="metered again, mean",
            )
            axes.set_title(canvas.heading(rows[0]))
            axes.set_xlabel("networks measured")
            canvas.plain_log(axes.xaxis)
        panels[0].set_ylabel("MAPE (%)")
        canvas.plain_log(panels[0].yaxis)
        text = "A line is a family; errors on unseen members."
        return {"samples": canvas.finish(figure, data, text, legend=4)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                canvas.FAMILIES[row["family"]],
                *where(row),
                *(cell(_at(row, "additive", most)) for most in (6, 12, 24, 40)),
                *(cell(_at(row, "paper", most)) for most in (24, 40, 1000)),
            )
            for row in data
        ]
        headers = (
            "family",
            "device",
            "joules",
            "additive: 6",
            "12",
            "24",
            "40",
            "paper's: 24",
            "40",
            "all",
        )
        title = "MAPE in percent by the number of networks measured, at most"
        return table_of(title, headers, rows)

    def sentence(self, data: Json) -> str:
        def ends(method: str) -> tuple[float, float]:
            return fmean(row[method][0][1] for row in data), fmean(
                row[method][-1][1] for row in data
            )

        usable = [row for row in data if row["paper"]]
        fewer = [row["paper"][-1][1] <= row["paper"][0][1] for row in usable] + [
            row["additive"][-1][1] <= row["additive"][0][1] for row in data
        ]
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
            f" families and devices; the second half of the networks brings {gained:.1f} points."
            f" That more samples improve accuracy: {holds(fewer, 'curve')}."
        )


def _additive(trial: Trial) -> list[list[float]]:
    """MAPE after the first so many networks that the prober asked for."""
    most = len(trial.networks)
    counts = {n for n in (*NETWORKS, most // 2) if NETWORKS[0] <= n < most} | {most}
    return [[n, trial.mape(fit_additive(trial.networks[:n]))] for n in sorted(counts)]


def _paper(trial: Trial) -> list[list[float]]:
    """MAPE after so many points of each kind, in the order in which they were asked for."""
    scores: dict[int, float] = {}
    for points in POINTS:
        rows = first_points(trial.variants, points)
        if len(rows) in scores:
            continue
        try:
            scores[len(rows)] = trial.mape(fit_paper(rows))
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


def _at(row: Json, method: str, most: float) -> float | None:
    """MAPE with at most so many measurements."""
    errors = [mape for count, mape in row[method] if count <= most]
    return errors[-1] if errors else None
