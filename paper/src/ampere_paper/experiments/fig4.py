"""Figure 4: the process of a linear layer after n and n + 1 points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.arrays import Array
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.estimators.processes import gp
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, span, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import BLUE, INK, PALE, RED
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import Sizes
from ampere_paper.lab.sweeps import CHANNELS, Sweep, sweep
from ampere_paper.lab.trials import place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE, BATCH = 28, 10  # the paper's: batches of (10, channels, 28, 28)
POINTS = 4
GRID = 127
REACH = 1.96


class Fig4(Experiment):
    """A process after 4 and 5 points."""

    name = "fig4"
    title = "A process after 4 and 5 points"
    claim = (
        "Measuring where the variance is largest diminishes the uncertainty (section 3.3, Fig. 4)."
    )
    figures = ("fig4",)

    def measure(self, lab: Laboratory) -> Json:
        """The paper's OPPO, and the first bench; in place of it, whatever there is."""
        chosen = {bench.name: bench for bench in lab.benches if bench.name == "oppo"}
        chosen = {lab.benches[0].name: lab.benches[0], **chosen}
        rows = []
        for bench in chosen.values():
            swept = sweep(lab, bench, SIDE, BATCH)
            steps = [_after(swept, count) for count in (POINTS, POINTS + 1)]
            rows.append(
                {
                    **place(bench, swept.provenance),
                    "widths": list(swept.widths),
                    "energy_j": swept.energy_j.tolist(),
                    "grid": np.linspace(1, CHANNELS, GRID).tolist(),
                    "steps": steps,
                }
            )
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure, panels = canvas.grid(2 * len(data), columns=2, height_in=2.0)
        for row, pair in zip(data, zip(panels[::2], panels[1::2], strict=True), strict=True):
            scale, unit = canvas.joule_scale(row["energy_j"])
            tops = []
            for step, axes in zip(row["steps"], pair, strict=True):
                tops.append(_draw_step(axes, row, step, scale))
                axes.set_title(f"{canvas.heading(row, ', ')}: {len(step['points'])} points")
                axes.set_xlabel("input channels")
                axes.set_ylabel(f"{unit} a step")
            for axes in pair:
                low, high = min(low for low, _ in tops), max(high for _, high in tops)
                axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        text = f"A linear layer on batches of ({BATCH}, channels, {SIDE}, {SIDE})."
        return {"fig4": canvas.finish(figure, data, text, legend=3)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                *where(row),
                ", ".join(str(row["widths"][i]) for i in sorted(row["steps"][0]["points"])),
                str(row["widths"][row["steps"][0]["next"]]),
                *(f"{_doubt(row, step):.1f}" for step in (0, 1)),
            )
            for row in data
        ]
        headers = (
            "device",
            "joules",
            "channels profiled",
            "next",
            f"std after {POINTS} %",
            f"std after {POINTS + 1} %",
        )
        return table_of("Doubt of a linear layer's process", headers, rows)

    def sentence(self, data: Json) -> str:
        before, after = ([_doubt(row, step) for row in data] for step in (0, 1))
        less = [b < a for a, b in zip(before, after, strict=True)]
        return (
            f"The largest standard deviation goes from {span(before)} of the mean energy after"
            f" {POINTS} points to {span(after)} after one more, taken where it was largest;"
            f" {holds(less)}."
        )

    def networks(self, sizes: Sizes) -> int:
        return sizes.sweep // 4


def _after(swept: Sweep, count: int) -> dict[str, Json]:
    """The process after so many points: both ends, then always where it knows least."""
    chosen = [0, len(swept.widths) - 1]
    points = swept.at(np.array(swept.widths))
    count = min(count, len(points) - 1)
    while len(chosen) < count:
        chosen.append(_next(swept.fit(chosen), points, chosen))
    process = swept.fit(chosen)
    mean, std = process.predict(swept.at(np.linspace(1, CHANNELS, GRID)))
    return {
        "points": chosen,
        "next": _next(process, points, chosen),
        "mean_j": mean.tolist(),
        "std_j": std.tolist(),
    }


def _next(process: gp.GaussianProcess, points: Array, chosen: list[int]) -> int:
    free = [i for i in range(len(points)) if i not in chosen]
    (best,) = gp.pick_next(process, points[free])
    return free[best]


def _doubt(row: Json, step: int) -> float:
    """The largest standard deviation, in percent of the mean of what was measured."""
    return float(100 * max(row["steps"][step]["std_j"]) / np.mean(row["energy_j"]))


def _draw_step(axes: Axes, row: Json, step: Json, scale: float) -> tuple[float, float]:
    """One panel; returns how far down and up it reaches."""
    grid, mean, std = (np.array(row_) for row_ in (row["grid"], step["mean_j"], step["std_j"]))
    low, high = scale * (mean - REACH * std), scale * (mean + REACH * std)
    widths, joules = np.array(row["widths"]), scale * np.array(row["energy_j"])
    axes.fill_between(grid, low, high, color=BLUE, alpha=0.18, linewidth=0, label="95 % interval")
    axes.plot(grid, scale * mean, color=BLUE, label="process")
    axes.plot(widths, joules, ".", color=PALE, markersize=3, label="metered, not known to it")
    axes.plot(widths[step["points"]], joules[step["points"]], "o", color=INK, markersize=4,
              label="profiled")  # fmt: skip
    axes.axvline(row["widths"][step["next"]], color=RED, linestyle=":", linewidth=1,
                 label="most doubtful: profiled next")  # fmt: skip
    return float(min(low.min(), joules.min())), float(max(high.max(), joules.max()))
