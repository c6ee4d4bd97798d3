"""Kernels of the paper's processes, compared (appendix A6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.progress import Event
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.estimators.paper import fit_paper
from ampere.estimators.processes.covariance import KERNELS
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import new_figure
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import FOUR
from ampere_paper.lab.trials import trials_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNEL = "matern52"  # the paper's, which every trial has
NAMES = {
    "matern52": "Matérn 5/2",
    "matern32": "Matérn 3/2",
    "matern12": "Matérn 1/2",
    "rbf": "squared exponential",
    "dot": "dot product",
}


class Kernels(Experiment):
    """Kernels compared."""

    name = "kernels"
    title = "Kernels compared"
    claim = "The Matérn kernel with ν = 2.5 is superior (section 3.3, appendix A6.2)."
    figures = ("kernels",)
    families = FOUR
    fitting_s = 0.7

    def measure(self, lab: Laboratory) -> Json:
        rows = []
        for trial in trials_of(lab, self.families):
            lab.watch(Event(f"{trial.bench.name} {trial.family}: kernels", 0, 1, 0.0))
            mape = {
                kernel: trial.mape(fit_paper(trial.variants, kernel))
                if kernel != KERNEL
                else trial.evaluation.mape("paper")
                for kernel in KERNELS
            }
            rows.append({**trial.place, "mape": mape})
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure = new_figure(4.6, 2.6)
        axes = figure.subplots()
        places = np.arange(len(NAMES))
        drawn: set[str] = set()
        for row in data:
            mark = canvas.BENCH_MARKS[row["bench"]]
            label = None if row["bench"] in drawn else canvas.heading(row, ", ")
            drawn.add(row["bench"])
            values = [row["mape"][kernel] for kernel in NAMES]
            axes.semilogy(
                places,
                values,
                mark.marker,
                linestyle="-",
                linewidth=0.5,
                markersize=2.5,
                color=mark.color,
                alpha=0.7,
                markeredgewidth=0,
                label=label,
            )
        means = [fmean(row["mape"][kernel] for row in data) for kernel in NAMES]
        axes.semilogy(
            places, means, "_", color="black", markersize=14, markeredgewidth=1.6, label="mean"
        )
        axes.set_xticks(places, [name.replace(" ", "\n") for name in NAMES.values()])
        axes.set_ylabel("MAPE (%)")
        canvas.plain_log(axes.yaxis)
        text = "The paper's method on unseen members; a line is a family on a device."
        return {"kernels": canvas.finish(figure, data, text, legend=3)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                canvas.FAMILIES[row["family"]],
                *where(row),
                *(f"{row['mape'][kernel]:.1f}" for kernel in NAMES),
            )
            for row in data
        ]
        headers = ("family", "device", "joules", *NAMES.values())
        return table_of("MAPE in percent of the paper's method by kernel", headers, rows)

    def sentence(self, data: Json) -> str:
        means = {kernel: fmean(row["mape"][kernel] for row in data) for kernel in NAMES}
        named = ", ".join(f"{NAMES[kernel]} {value:.1f} %" for kernel, value in means.items())
        others = [
            row["mape"]["matern52"] <= min(row["mape"][kernel] for kernel in ("rbf", "dot"))
            for row in data
        ]
        best = NAMES[min(means, key=means.__getitem__)]
        return (
            f"MAPE, mean over families and devices: {named}; {best} is best on average. That Matérn"
            f" 5/2 is no worse than the kernels that are not Matérn's: {holds(others, 'pair')}."
        )
