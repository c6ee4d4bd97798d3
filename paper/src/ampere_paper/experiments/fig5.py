"""Figure 5: the energy of a linear layer against its FLOPs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.arrays import Array
from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, span, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import BLUE, INK, RED
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import Sizes
from ampere_paper.lab.sweeps import Sweep, sweep
from ampere_paper.lab.trials import place

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, BATCH = 50, 4  # the paper's: batches of (4, channels, 50, 50)
BENT = 5.0  # percent off any straight line, from which on it is none


class Fig5(Experiment):
    """Energy of a linear layer against FLOPs."""

    name = "fig5"
    title = "Energy of a linear layer against FLOPs"
    claim = (
        "FLOPs grow linearly with the input channels, energy does not, and a Gaussian process"
        " fits it (section 3.3, Fig. 5)."
    )
    figures = ("fig5",)

    def measure(self, lab: Laboratory) -> Json:
        rows = []
        for bench in lab.benches:
            swept = sweep(lab, bench, SIDE, BATCH)
            rows.append({**place(bench, swept.provenance), **_compared(swept)})
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure, panels = canvas.grid(len(data))
        for row, axes in zip(data, panels, strict=True):
            scale, unit = canvas.joule_scale(row["energy_j"])
            flops, joules = np.array(row["flops"]) / 1e6, scale * np.array(row["energy_j"])
            axes.plot(
                flops,
                joules,
                "o-",
                color=BLUE,
                linewidth=0.9,
                markersize=3,
                markerfacecolor=INK,
                markeredgecolor=INK,
                label="metered",
            )
            ends = np.array([0, flops[-1]])
            axes.plot(
                ends,
                scale * row["joules_per_flop"] * 1e6 * ends,
                color=RED,
                linestyle="--",
                label="proportional to FLOPs",
            )
            axes.set_title(canvas.heading(row))
            axes.set_xlabel("MFLOP a step")
            axes.set_ylabel(f"{unit} a step")
            axes.set_xlim(0, 1.04 * flops[-1])
            axes.set_ylim(0, 1.15 * joules.max())
        text = (
            f"A linear layer on batches of ({BATCH}, channels, {SIDE}, {SIDE}), 1 to 64 channels."
        )
        return {"fig5": canvas.finish(figure, data, text, legend=2)}

    def table(self, data: Json) -> Page:
        errors = ("bend", "error_flops", "error_line", "error_process")
        rows = [(*where(row), *(f"{row[key]:.1f}" for key in errors)) for row in data]
        headers = (
            "device",
            "joules",
            "off the best line by up to %",
            "FLOPs: MAPE %",
            "line: MAPE %",
            "process: MAPE %",
        )
        return table_of("Energy of a linear layer from its FLOPs", headers, rows)

    def sentence(self, data: Json) -> str:
        flops, line, process, bend = (
            [row[key] for row in data]
            for key in ("error_flops", "error_line", "error_process", "bend")
        )
        bent = holds([value > BENT for value in bend])
        better = holds([row["error_process"] < row["error_line"] for row in data])
        return (
            f"Joules per FLOP are off by {span(flops)} on average; of points that they were not"
            f" told, a straight line with an offset by {span(line)}, a process by {span(process)}."
            f" The best line is up to {span(bend)} off; that energy is not linear in FLOPs (more"
            f" than {BENT:g} %): {bent}; that a process does better than a line: {better}."
        )

    def networks(self, sizes: Sizes) -> int:
        return sizes.sweep


def _compared(swept: Sweep) -> dict[str, Json]:
    """What joules per FLOP say of each point, and a line and a process that were not told of it.

    Lines are of least relative errors, the kindest to them; errors are in percent. `bend` is how
    far the best line through all points is from one of them.
    """
    flops, joules = swept.flops, swept.energy_j
    per_flop = float((flops / joules).sum() / np.square(flops / joules).sum())
    design = np.column_stack([np.ones_like(flops), flops / flops.max()]) / joules[:, None]
    projection = design @ np.linalg.pinv(design)
    off = projection.sum(1) - 1
    misses = swept.fit(list(range(len(joules)))).leave_one_out()
    return {
        "widths": list(swept.widths),
        "flops": flops.tolist(),
        "energy_j": joules.tolist(),
        "joules_per_flop": per_flop,
        "error_flops": _mape(per_flop * flops / joules - 1),
        "error_line": _mape(off / (1 - np.diag(projection))),
        "error_process": _mape(misses / joules),
        "bend": float(100 * np.abs(off).max()),
    }


def _mape(errors: Array) -> float:
    return float(100 * np.abs(errors).mean())
