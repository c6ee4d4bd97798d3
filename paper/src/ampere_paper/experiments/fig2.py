"""Figure 2: energy against the number of stacked layers, with NeuralPower's estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.families import Network
from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.core.workloads import Workload
from ampere.estimators.baselines.neuralpower import STAGES, fit_neuralpower
from ampere.evaluation.check import ADDITIVE, DEPTHS, chain, trend
from ampere.records.measurement import succeeded
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, span, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import INK
from ampere_paper.lab.benches import Bench
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.notebooks import network
from ampere_paper.lab.plans import Sizes
from ampere_paper.lab.trials import place

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Fig2(Experiment):
    """Energy against the number of stacked layers."""

    name = "fig2"
    title = "Energy against the number of stacked layers"
    claim = (
        "Every layer more costs the same, on a straight line, and NeuralPower overestimates"
        " (sections 2.2 and 3.2, Fig. 2)."
    )
    figures = ("fig2",)

    def measure(self, lab: Laboratory) -> Json:
        return [_stacks(lab, bench) for bench in lab.benches]

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure, panels = canvas.grid(len(data))
        look = canvas.METHODS["neuralpower"]
        for row, axes in zip(data, panels, strict=True):
            scale, unit = canvas.joule_scale([*row["energy_j"], *row["neuralpower_j"]])
            depths = np.array(row["depths"])
            line = scale * (row["start_j"] + row["slope_j"] * depths)
            axes.plot(
                depths,
                scale * np.array(row["neuralpower_j"]),
                look.marker,
                color=look.color,
                linestyle="--",
                markersize=3,
                linewidth=0.9,
                label=look.label,
            )
            axes.plot(depths, line, color=INK, linewidth=0.9, label="straight line")
            axes.plot(
                depths,
                scale * np.array(row["energy_j"]),
                "o",
                color=INK,
                markersize=3.5,
                label="metered",
            )
            axes.set_title(canvas.heading(row))
            axes.set_xlabel("stacked layers")
            axes.set_ylabel(f"{unit} a step")
            axes.set_ylim(bottom=0)
            axes.text(
                0.04, 0.95, f"R² {row['r2']:.4f}", transform=axes.transAxes, va="top", fontsize=7
            )
        text = "A 3×3 convolution of 16 channels on 32×32 maps, stacked; batches of 10."
        return {"fig2": canvas.finish(figure, data, text, legend=3)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                *where(row),
                units.joules(row["slope_j"]),
                f"{row['r2']:.4f}",
                f"{100 * row['largest_deviation']:.1f}",
                f"{_excess(row):+.1f}",
            )
            for row in data
        ]
        headers = (
            "device",
            "joules",
            "each layer more",
            "R²",
            "off the line %",
            "NeuralPower bias %",
        )
        return table_of("The same layer stacked 0 to 6 times", headers, rows)

    def sentence(self, data: Json) -> str:
        off = [100 * row["largest_deviation"] for row in data]
        straight = [value <= 100 * ADDITIVE for value in off]
        excess = [_excess(row) for row in data]
        r2 = span([row["r2"] for row in data], "", ".4f")
        return (
            f"Stacks are at most {span(off)} off a straight line (R² {r2}); that each layer more"
            f" costs the same (within {100 * ADDITIVE:.0f} %): {holds(straight)}. NeuralPower is"
            f" off by {span(excess, form='+.1f')} on average; that it overestimates:"
            f" {holds([value > 0 for value in excess])}."
        )

    def networks(self, sizes: Sizes) -> int:
        return len(DEPTHS) + 9


def _stacks(lab: Laboratory, bench: Bench) -> dict[str, Json]:
    """The same layer 0 to 6 times between a first and a last one, and each of them alone."""
    from ampere.pytorch.models import check_layers

    (first, last), stacked, _ = check_layers()
    chains = [chain(first, [stacked] * depth, last) for depth in DEPTHS]
    alone = [
        Network(f"{stage} of {layer.name}", Workload((layer,), stage=stage), (layer,))
        for layer in (first, stacked, last)
        for stage in STAGES
    ]
    with lab.notebook(bench, "stacks") as book:
        whole = [network(f"{n} layers", layers) for n, layers in zip(DEPTHS, chains, strict=True)]
        rows = succeeded([row for (row,) in book.measure(whole)], "a network")
        parts = succeeded([row for (row,) in book.measure(alone)], "a network")
        provenance = book.header.provenance
    joules = [row.energy_j for row in rows]
    fit = fit_neuralpower(parts)
    return {
        **place(bench, provenance),
        "depths": list(DEPTHS),
        "energy_j": joules,
        "neuralpower_j": [fit.predict(layers).total.energy_j for layers in chains],
        **asdict(trend(DEPTHS, joules)),
    }


def _excess(row: Json) -> float:
    """By how much NeuralPower overestimates, in percent, on average over the stacks."""
    pairs = zip(row["neuralpower_j"], row["energy_j"], strict=True)
    return 100 * fmean(estimate_j / energy_j - 1 for estimate_j, energy_j in pairs)
