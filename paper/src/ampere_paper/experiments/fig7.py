"""Figure 7: random 5-layer CNNs, estimated against metered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import (
    beats_flops,
    cell,
    holds,
    mean_errors,
    span,
    table_of,
    where,
)
from ampere_paper.figures import canvas
from ampere_paper.figures.style import INK
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.trials import trials_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("flops", "paper", "additive")


class Fig7(Experiment):
    """Random 5-layer CNNs, estimated against metered."""

    name = "fig7"
    title = "Random 5-layer CNNs, estimated against metered"
    claim = (
        "FLOPs overestimate small models and underestimate large ones, ampere is accurate"
        " across the range (section 4.1, Fig. 7, 100 models)."
    )
    figures = ("fig7",)
    families = ("cnn5",)

    def measure(self, lab: Laboratory) -> Json:
        return [
            {
                **trial.score(),
                "energy_j": [result.energy_j for result in trial.evaluation.results],
                "flops": [result.flops for result in trial.evaluation.results],
                "estimates_j": {
                    method: [result.estimates_j[method] for result in trial.evaluation.results]
                    for method in SHOWN
                },
            }
            for trial in trials_of(lab, self.families)
        ]

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure, panels = canvas.grid(len(data), height_in=2.2)
        for row, axes in zip(data, panels, strict=True):
            _draw_one(axes, row)
        counts = [len(row["energy_j"]) for row in data]
        text = f"Training steps of {span(counts, '', '.0f')} random 5-layer CNNs, batches of 10."
        return {"fig7": canvas.finish(figure, data, text, legend=4)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                *where(row),
                str(row["models"]),
                *(cell(row["mape"][method]) for method in SHOWN),
                " / ".join(cell(bias, "+.0f") for bias in row["bias_by_size"]["flops"]),
                " / ".join(cell(bias, "+.0f") for bias in row["bias_by_size"]["additive"]),
            )
            for row in data
        ]
        headers = (
            "device",
            "joules",
            "CNNs",
            "FLOPs %",
            "paper's %",
            "additive %",
            "FLOPs bias: small / middle / large",
            "additive bias",
        )
        return table_of("MAPE on random 5-layer CNNs", headers, rows)

    def sentence(self, data: Json) -> str:
        small, large = ([row["bias_by_size"]["flops"][i] or 0.0 for row in data] for i in (0, 2))
        as_said = [s > 0 > b for s, b in zip(small, large, strict=True)]
        return (
            f"{mean_errors(data)}; that the method beats FLOPs: {beats_flops(data)}."
            f" FLOPs are off by {span(small, form='+.0f')} for the smallest third and"
            f" {span(large, form='+.0f')} for the largest; that they overestimate small and"
            f" underestimate large ones: {holds(as_said)}."
        )


def _draw_one(axes: Axes, row: Json) -> None:
    every = [value for values in row["estimates_j"].values() for value in values if value > 0]
    scale, unit = canvas.joule_scale(row["energy_j"])
    energy = scale * np.array(row["energy_j"])
    for method in SHOWN:
        look = canvas.METHODS[method]
        estimates = scale * np.array(row["estimates_j"][method])
        axes.loglog(energy, estimates, look.marker, color=look.color, markersize=2.6, alpha=0.7,
                    markeredgewidth=0, label=look.label)  # fmt: skip
    low = scale * max(min(*every, *row["energy_j"]), 0.05 * min(row["energy_j"]))
    high = scale * max(*every, *row["energy_j"])
    ends = (low / 1.2, high * 1.2)
    axes.plot(ends, ends, color=INK, linewidth=0.8, label="as metered", zorder=0)
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    axes.set_box_aspect(1)
    axes.set_title(canvas.heading(row))
    axes.set_xlabel(f"metered ({unit})")
    axes.set_ylabel(f"estimated ({unit})")
    for axis in (axes.xaxis, axes.yaxis):
        canvas.plain_log(axis)
