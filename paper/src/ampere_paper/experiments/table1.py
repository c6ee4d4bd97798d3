"""Table 1: seconds of profiling and fitting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import INK, PALE
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import FOUR
from ampere_paper.lab.trials import trials_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPORTED_S = {  # by the paper, on the real devices
    "oppo": {"lenet5": 694, "cnn5": 1688, "har": 2188, "lstm": 1615},
    "iphone": {"lenet5": 1201, "cnn5": 1012, "har": 2446, "lstm": 1168},
    "xavier": {"lenet5": 184, "cnn5": 421, "har": 740, "lstm": 1145},
    "tx2": {"lenet5": 285, "cnn5": 1211, "har": 4433, "lstm": 422},
    "server": {"lenet5": 235, "cnn5": 268, "har": 562, "lstm": 436},
}
LIMIT_S = 1200.0  # the paper's 20 minutes
METHODS = ("paper", "additive")


class Table1(Experiment):
    """Seconds of profiling and fitting."""

    name = "table1"
    title = "Seconds of profiling and fitting"
    claim = "Most profiles are finished within 20 minutes (section 4.1, Table 1)."
    figures = ("table1",)
    families = FOUR

    def measure(self, lab: Laboratory) -> Json:
        return [
            {
                **trial.place,
                "seconds": {method: trial.seconds[method] for method in METHODS},
                "measurements": {"paper": len(trial.variants), "additive": len(trial.networks)},
                "reported_s": REPORTED_S.get(trial.bench.name, {}).get(trial.family),
            }
            for trial in trials_of(lab, self.families)
        ]

    def draw(self, data: Json) -> Mapping[str, Figure]:
        families = canvas.families_of(data)
        figure, panels = canvas.grid(len(families), columns=2, height_in=1.8)
        for family, axes in zip(families, panels, strict=True):
            _draw_one(axes, [row for row in data if row["family"] == family])
            axes.set_title(canvas.FAMILIES[family], loc="left")
        text = "Seconds of measuring and fitting; of simulated devices by their own clocks."
        return {"table1": canvas.finish(figure, data, text, legend=4)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                canvas.FAMILIES[row["family"]],
                *where(row),
                "–" if row["reported_s"] is None else str(row["reported_s"]),
                *(f"{row['seconds'][method]:.0f}" for method in METHODS),
                *(str(row["measurements"][method]) for method in METHODS),
            )
            for row in data
        ]
        headers = (
            "family",
            "device",
            "joules",
            "reported s",
            "paper's method s",
            "additive s",
            "variants",
            "networks",
        )
        return table_of("Seconds of profiling and fitting", headers, rows)

    def sentence(self, data: Json) -> str:
        spent = {method: [row["seconds"][method] for row in data] for method in METHODS}
        real = [row for row in data if row["provenance"] != "simulated"]
        own = (
            f" On this machine: {_span([row['seconds']['paper'] for row in real])} and"
            f" {_span([row['seconds']['additive'] for row in real])}."
            if real
            else ""
        )
        short = [seconds <= LIMIT_S for seconds in spent["paper"]]
        return (
            f"Profiling and fitting take {_span(spent['paper'])} by the paper's method and"
            f" {_span(spent['additive'])} by the additive one, by the clock of each device.{own}"
            f" That it takes at most 20 minutes: {holds(short, 'pair')} of family and device."
        )


def _draw_one(axes: Axes, rows: list[Json]) -> None:
    places = np.arange(len(rows))
    for method in METHODS:
        look = canvas.METHODS[method]
        axes.semilogy(places, [row["seconds"][method] for row in rows], look.marker,
                      color=look.color, markersize=4.5, label=look.label)  # fmt: skip
    there = [(i, row["reported_s"]) for i, row in enumerate(rows) if row["reported_s"]]
    if there:
        axes.semilogy(*zip(*there, strict=True), "x", color=INK, markersize=4.5,
                      label="reported by the paper")  # fmt: skip
    axes.axhline(LIMIT_S, color=PALE, linestyle=":", linewidth=1, label="20 minutes")
    axes.set_xticks(places, [row["title"] for row in rows], rotation=30, ha="right",
                    rotation_mode="anchor")  # fmt: skip
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylabel("seconds")
    canvas.plain_log(axes.yaxis)


def _span(values: list[float]) -> str:
    low, high = units.seconds(min(values)), units.seconds(max(values))
    return low if low == high else f"{low} to {high}"
