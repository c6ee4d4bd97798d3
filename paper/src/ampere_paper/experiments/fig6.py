"""Figure 6: time against energy.

Only of devices whose joules are not made out of seconds: simulated ones, and recorded data. Of the
latter nothing is kept but medians of a dozen groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import NotCovered
from ampere.meters.base import Provenance
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, span, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import INK, PALE
from ampere_paper.lab.benches import Bench
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.trials import Trial, trial_of
from ampere_paper.published.datasets import read_sets
from ampere_paper.published.extracts import Recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUPS = 12
WIDE = 8  # times the smallest, from which on logarithms are drawn
STRONG = 0.8  # correlation from which on seconds may stand in for joules


class Fig6(Experiment):
    """Time against energy."""

    name = "fig6"
    title = "Time against energy"
    claim = (
        "Time and energy have an obvious positive relationship, so time can guide profiling"
        " (section 3.3, Fig. 6)."
    )
    figures = ("fig6",)
    families = ("cnn5",)
    recorded = True

    def measure(self, lab: Laboratory) -> Json:
        rows = [
            {
                **trial.place,
                "time_s": [result.time_s for result in trial.evaluation.results],
                "energy_j": [result.energy_j for result in trial.evaluation.results],
            }
            for trial in _trials(lab)
        ]
        for row in rows:
            row["correlation"] = _correlation(row["time_s"], row["energy_j"])
        if lab.plan.recorded is not None:
            rows += [
                _grouped(name, data)
                for name, data in read_sets(lab.plan.recorded).items()
                if data.times_s and None not in data.times_s
            ]
        if not rows:
            raise NotCovered(
                "modelled joules are made out of seconds: time against energy needs a meter, a"
                " simulated device or --recorded"
            )
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure, panels = canvas.grid(len(data))
        for row, axes in zip(data, panels, strict=True):
            _draw_one(axes, row)
        text = "Training steps of random 5-layer CNNs."
        if any("middle_j" in row for row in data):
            text += " Recorded: medians of groups by time, with the middle 80 % of each."
        return {"fig6": canvas.finish(figure, data, text)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                *where(row),
                units.number(row.get("networks", len(row["time_s"]))),
                f"{row['correlation']:.3f}",
            )
            for row in data
        ]
        return table_of("Time and energy", ("device", "joules", "networks", "r of logs"), rows)

    def sentence(self, data: Json) -> str:
        correlations = [row["correlation"] for row in data]
        return (
            f"Time and energy correlate with r = {span(correlations, '', '.3f')} (of logarithms);"
            f" that the relation is obvious (r of {STRONG:g} or more):"
            f" {holds([r >= STRONG for r in correlations])}."
            " Modelled joules are left out: they are made out of seconds."
        )

    def needs_trials_on(self, bench: Bench) -> bool:
        return bench.simulated


def _trials(lab: Laboratory) -> list[Trial]:
    return [
        trial_of(lab, bench, "cnn5")
        for bench in lab.benches
        if "cnn5" in lab.sizes(bench).families and lab.provenance(bench) is not Provenance.MODELLED
    ]


def _grouped(name: str, data: Recorded) -> dict[str, Json]:
    """A recorded data set in groups of equal size by time: medians, and the middle of each."""
    time = np.array(data.times_s)
    energy = np.array([row.energy_j for row in data.rows])
    order = np.argsort(time)
    groups = [group for group in np.array_split(order, GROUPS) if len(group)]
    return {
        "bench": name,
        "title": data.name,
        "provenance": Provenance.RECORDED.value,
        "networks": len(time),
        "time_s": [float(np.median(time[group])) for group in groups],
        "energy_j": [float(np.median(energy[group])) for group in groups],
        "middle_j": [np.quantile(energy[group], (0.1, 0.9)).tolist() for group in groups],
        "correlation": _correlation(time.tolist(), energy.tolist()),
    }


def _correlation(time_s: Sequence[float], energy_j: Sequence[float]) -> float:
    """Pearson's, of logarithms: sizes span orders of magnitude."""
    if len(set(time_s)) < 2 or len(set(energy_j)) < 2:
        return 0.0
    return float(np.corrcoef(np.log(time_s), np.log(energy_j))[0, 1])


def _draw_one(axes: Axes, row: Json) -> None:
    scale, unit = canvas.joule_scale(row["energy_j"])
    slow = max(row["time_s"]) >= 1
    time = np.array(row["time_s"]) * (1 if slow else 1e3)
    energy = scale * np.array(row["energy_j"])
    if "middle_j" in row:
        low, high = scale * np.array(row["middle_j"]).T
        axes.vlines(time, low, high, color=PALE, linewidth=1)
    axes.plot(time, energy, "o", color=INK, markersize=2.5, alpha=0.8, markeredgewidth=0)
    axes.set_title(canvas.heading(row))
    axes.set_xlabel(f"time ({'s' if slow else 'ms'})")
    axes.set_ylabel(f"energy ({unit})")
    axes.text(0.05, 0.95, f"r = {row['correlation']:.3f}", transform=axes.transAxes, va="top",
              fontsize=7)  # fmt: skip
    if max(energy) > WIDE * min(energy):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            canvas.plain_log(axis)
