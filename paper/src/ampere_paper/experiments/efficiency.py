"""Joules per FLOP of the devices, side by side (section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import new_figure
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.trials import trials_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMILAR = 1.5  # ratio up to which two devices are alike


class Efficiency(Experiment):
    """Joules per FLOP of the devices."""

    name = "efficiency"
    title = "Joules per FLOP of the devices"
    claim = "Xavier and server have a similar energy efficiency on these layers (section 4.2)."
    figures = ("efficiency",)
    families = ("cnn5",)

    def measure(self, lab: Laboratory) -> Json:
        rows = []
        for trial in trials_of(lab, self.families):
            results = sorted(trial.evaluation.results, key=lambda result: result.flops)
            largest = results[-max(1, len(results) // 3) :]
            rows.append(
                {
                    **trial.place,
                    "flops": [result.flops for result in results],
                    "joules_per_flop": [result.energy_j / result.flops for result in results],
                    "of_the_largest": median(result.energy_j / result.flops for result in largest),
                }
            )
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure = new_figure(4.6, 3.0)
        axes = figure.subplots()
        for row in data:
            mark = canvas.BENCH_MARKS[row["bench"]]
            axes.loglog(
                np.array(row["flops"]) / 1e6,
                1e9 * np.array(row["joules_per_flop"]),
                mark.marker,
                color=mark.color,
                markersize=3,
                alpha=0.8,
                markeredgewidth=0,
                label=canvas.heading(row, ", "),
            )
        axes.set_xlabel("MFLOP of a training step")
        axes.set_ylabel("energy per FLOP (nJ)")
        for axis in (axes.xaxis, axes.yaxis):
            canvas.plain_log(axis)
        text = "Random 5-layer CNNs, batches of 10."
        return {"efficiency": canvas.finish(figure, data, text, legend=3)}

    def table(self, data: Json) -> Page:
        rows = [(*where(row), f"{1e9 * row['of_the_largest']:.3g}") for row in data]
        headers = ("device", "joules", "nJ per FLOP, largest third")
        return table_of("Energy per FLOP of random 5-layer CNNs", headers, rows)

    def sentence(self, data: Json) -> str:
        per_flop_nj = {row["bench"]: 1e9 * row["of_the_largest"] for row in data}
        named = ", ".join(f"{row['title']} {per_flop_nj[row['bench']]:.3g}" for row in data)
        spread = [max(row["joules_per_flop"]) / min(row["joules_per_flop"]) for row in data]
        text = (
            f"Nanojoules per FLOP of the largest third of the CNNs: {named}; on one and the same"
            f" device they differ by up to {max(spread):.0f} times between CNNs."
        )
        if {"xavier", "server"} <= set(per_flop_nj):
            low, high = sorted((per_flop_nj["xavier"], per_flop_nj["server"]))
            ratio = high / low
            verdict = "holds" if ratio <= SIMILAR else "does not hold"
            return (
                f"{text} Xavier and server, both simulated, are {ratio:.1f} times apart: the claim"
                f" {verdict} for them."
            )
        return f"{text} Xavier and server were not both looked at, so nothing is said of the claim."
