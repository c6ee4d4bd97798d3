"""Kernels of the paper's processes, compared (appendix A6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.progress import Event
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.estimators.gp import KERNELS
from ampere.estimators.paper import fit_paper
from ampere_paper import drawing
from ampere_paper.experiments.experiment import Experiment, holds
from ampere_paper.figures import new_figure
from ampere_paper.laboratory import Laboratory
from ampere_paper.plans import FOUR
from ampere_paper.surveys import surveys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNEL = "matern52"  # the paper's, which every survey has
NAMES = {
    "matern52": "Matérn 5/2",
    "matern32": "Matérn 3/2",
    "matern12": "Matérn 1/2",
    "rbf": "squared exponential",
    "dot": "dot product",
}


def _measure(lab: Laboratory) -> Json:
    rows = []
    for found in surveys(lab, FOUR):
        lab.watch(Event(f"{found.bench.name} {found.family}: kernels", 0, 1, 0.0))
        mape = {
            kernel: found.mape(fit_paper(found.variants, kernel))
            if kernel != KERNEL
            else found.evaluation.mape("paper")
            for kernel in KERNELS
        }
        rows.append({**found.place, "mape": mape})
    return rows


def _draw(data: Json) -> Mapping[str, Figure]:
    figure = new_figure(4.6, 2.6)
    axes = figure.subplots()
    places = np.arange(len(NAMES))
    drawn: set[str] = set()
    for row in data:
        look = drawing.BENCH_LOOKS[row["bench"]]
        label = None if row["bench"] in drawn else drawing.heading(row, ", ")
        drawn.add(row["bench"])
        values = [row["mape"][kernel] for kernel in NAMES]
        axes.semilogy(places, values, look.marker, linestyle="-", linewidth=0.5, markersize=2.5,
                      color=look.color, alpha=0.7, markeredgewidth=0, label=label)  # fmt: skip
    means = [fmean(row["mape"][kernel] for row in data) for kernel in NAMES]
    axes.semilogy(places, means, "_", color="black", markersize=14, markeredgewidth=1.6,
                  label="mean")  # fmt: skip
    axes.set_xticks(places, [name.replace(" ", "\n") for name in NAMES.values()])
    axes.set_ylabel("MAPE (%)")
    drawing.plain_log(axes.yaxis)
    text = "The paper's method on unseen members; a line is a family on a device."
    return {"kernels": drawing.finish(figure, data, text, legend=3)}


def _table(data: Json) -> Page:
    rows = [
        (
            drawing.FAMILIES[row["family"]],
            *drawing.where(row),
            *(f"{row['mape'][kernel]:.1f}" for kernel in NAMES),
        )
        for row in data
    ]
    headers = ("family", "device", "joules", *NAMES.values())
    return drawing.page("MAPE in percent of the paper's method by kernel", headers, rows)


def _sentence(data: Json) -> str:
    means = {kernel: fmean(row["mape"][kernel] for row in data) for kernel in NAMES}
    named = ", ".join(f"{NAMES[kernel]} {value:.1f} %" for kernel, value in means.items())
    others = [
        row["mape"]["matern52"] <= min(row["mape"][kernel] for kernel in ("rbf", "dot"))
        for row in data
    ]
    best = NAMES[min(means, key=means.__getitem__)]
    return (
        f"MAPE, mean over families and devices: {named}; {best} is best on average. That Matérn 5/2"
        f" is no worse than the kernels that are not Matérn's: {holds(others, 'pair')}."
    )


KERNELS_COMPARED = Experiment(
    "kernels",
    "Kernels compared",
    "The Matérn kernel with ν = 2.5 is superior (section 3.3, appendix A6.2).",
    _measure,
    _draw,
    _table,
    _sentence,
    FOUR,
    fitting_s=0.7,
)
