"""Figure 6: time against energy.

Only of devices whose joules are not made out of seconds: simulated ones, and recorded data. Of the
latter nothing is kept but medians of a dozen groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import NotCovered
from ampere.meters.base import Provenance
from ampere_paper import drawing
from ampere_paper.experiments.experiment import Experiment, holds, span
from ampere_paper.figures import INK, PALE
from ampere_paper.laboratory import Laboratory
from ampere_paper.published import Recorded, read_sets
from ampere_paper.surveys import Survey, survey

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUPS = 12
WIDE = 8  # times the smallest, from which on logarithms are drawn
STRONG = 0.8  # correlation from which on seconds may stand in for joules


def _measure(lab: Laboratory) -> Json:
    rows = [
        {
            **found.place,
            "time_s": [result.time_s for result in found.evaluation.results],
            "energy_j": [result.energy_j for result in found.evaluation.results],
        }
        for found in _surveys(lab)
    ]
    for row in rows:
        row["correlation"] = _correlation(row["time_s"], row["energy_j"])
    if lab.plan.recorded is not None:
        rows += [
            _grouped(name, data)
            for name, data in read_sets(lab.plan.recorded).items()
            if data.times_s and all(map(math.isfinite, data.times_s))
        ]
    if not rows:
        raise NotCovered(
            "modelled joules are made out of seconds: time against energy needs a meter, a"
            " simulated device or --recorded"
        )
    return rows


def _surveys(lab: Laboratory) -> list[Survey]:
    return [
        survey(lab, bench, "cnn5")
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


def _draw(data: Json) -> Mapping[str, Figure]:
    figure, panels = drawing.grid(len(data))
    for row, axes in zip(data, panels, strict=True):
        _draw_one(axes, row)
    text = "Training steps of random 5-layer CNNs."
    if any("middle_j" in row for row in data):
        text += " Recorded: medians of groups by time, with the middle 80 % of each."
    return {"fig6": drawing.finish(figure, data, text)}


def _draw_one(axes: Axes, row: Json) -> None:
    scale, unit = drawing.joule_scale(row["energy_j"])
    slow = max(row["time_s"]) >= 1
    time = np.array(row["time_s"]) * (1 if slow else 1e3)
    energy = scale * np.array(row["energy_j"])
    if "middle_j" in row:
        low, high = scale * np.array(row["middle_j"]).T
        axes.vlines(time, low, high, color=PALE, linewidth=1)
    axes.plot(time, energy, "o", color=INK, markersize=2.5, alpha=0.8, markeredgewidth=0)
    axes.set_title(drawing.heading(row))
    axes.set_xlabel(f"time ({'s' if slow else 'ms'})")
    axes.set_ylabel(f"energy ({unit})")
    axes.text(0.05, 0.95, f"r = {row['correlation']:.3f}", transform=axes.transAxes, va="top",
              fontsize=7)  # fmt: skip
    if max(energy) > WIDE * min(energy):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            drawing.plain_log(axis)


def _table(data: Json) -> Page:
    rows = [
        (
            *drawing.where(row),
            units.number(row.get("networks", len(row["time_s"]))),
            f"{row['correlation']:.3f}",
        )
        for row in data
    ]
    return drawing.page("Time and energy", ("device", "joules", "networks", "r of logs"), rows)


def _sentence(data: Json) -> str:
    found = [row["correlation"] for row in data]
    return (
        f"Time and energy correlate with r = {span(found, '', '.3f')} (of logarithms); that the"
        f" relation is obvious (r of {STRONG:g} or more): {holds([r >= STRONG for r in found])}."
        " Modelled joules are left out: they are made out of seconds."
    )


FIG6 = Experiment(
    "fig6",
    "Time against energy",
    "Time and energy have an obvious positive relationship, so time can guide profiling (section"
    " 3.3, Fig. 6).",
    _measure,
    _draw,
    _table,
    _sentence,
    ("cnn5",),
    recorded=True,
    where=lambda bench: bench.simulated,
)
