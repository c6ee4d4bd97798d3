"""Joules per FLOP of the devices, side by side (section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper import drawing
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.figures import new_figure
from ampere_paper.laboratory import Laboratory
from ampere_paper.surveys import surveys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMILAR = 1.5  # ratio up to which two devices are alike


def _measure(lab: Laboratory) -> Json:
    rows = []
    for found in surveys(lab, ("cnn5",)):
        results = sorted(found.evaluation.results, key=lambda result: result.flops)
        largest = results[-max(1, len(results) // 3) :]
        rows.append(
            {
                **found.place,
                "flops": [result.flops for result in results],
                "joules_per_flop": [result.energy_j / result.flops for result in results],
                "of_the_largest": median(result.energy_j / result.flops for result in largest),
            }
        )
    return rows


def _draw(data: Json) -> Mapping[str, Figure]:
    figure = new_figure(4.6, 3.0)
    axes = figure.subplots()
    for row in data:
        look = drawing.BENCH_LOOKS[row["bench"]]
        axes.loglog(np.array(row["flops"]) / 1e6, 1e9 * np.array(row["joules_per_flop"]),
                    look.marker, color=look.color, markersize=3, alpha=0.8, markeredgewidth=0,
                    label=drawing.heading(row, ", "))  # fmt: skip
    axes.set_xlabel("MFLOP of a training step")
    axes.set_ylabel("energy per FLOP (nJ)")
    for axis in (axes.xaxis, axes.yaxis):
        drawing.plain_log(axis)
    text = "Random 5-layer CNNs, batches of 10."
    return {"efficiency": drawing.finish(figure, data, text, legend=3)}


def _table(data: Json) -> Page:
    rows = [(*drawing.where(row), f"{1e9 * row['of_the_largest']:.3g}") for row in data]
    headers = ("device", "joules", "nJ per FLOP, largest third")
    return drawing.page("Energy per FLOP of random 5-layer CNNs", headers, rows)


def _sentence(data: Json) -> str:
    found = {row["bench"]: 1e9 * row["of_the_largest"] for row in data}
    named = ", ".join(f"{row['title']} {found[row['bench']]:.3g}" for row in data)
    spread = [max(row["joules_per_flop"]) / min(row["joules_per_flop"]) for row in data]
    text = (
        f"Nanojoules per FLOP of the largest third of the CNNs: {named}; on one and the same device"
        f" they differ by up to {max(spread):.0f} times between CNNs."
    )
    if {"xavier", "server"} <= set(found):
        ratio = max(found["xavier"], found["server"]) / min(found["xavier"], found["server"])
        verdict = "holds" if ratio <= SIMILAR else "does not hold"
        return f"{text} Xavier and server, both simulated, are {ratio:.1f} times apart: the claim {verdict} for them."  # noqa: E501
    return f"{text} Xavier and server were not both looked at, so nothing is said of the claim."


EFFICIENCY = Experiment(
    "efficiency",
    "Joules per FLOP of the devices",
    "Xavier and server have a similar energy efficiency on these layers (section 4.2).",
    _measure,
    _draw,
    _table,
    _sentence,
    ("cnn5",),
)
