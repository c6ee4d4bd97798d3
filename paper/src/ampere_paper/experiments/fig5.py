"""Figure 5: the energy of a linear layer against its FLOPs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.arrays import Array
from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper import drawing
from ampere_paper.experiments.experiment import Experiment, holds, span
from ampere_paper.figures import BLUE, INK, RED
from ampere_paper.laboratory import Laboratory
from ampere_paper.surveys import place
from ampere_paper.sweep import Sweep, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, BATCH = 50, 4  # the paper's: batches of (4, channels, 50, 50)
BENT = 5.0  # percent off any straight line, from which on it is none


def _measure(lab: Laboratory) -> Json:
    rows = []
    for bench in lab.benches:
        swept = sweep(lab, bench, SIDE, BATCH)
        rows.append({**place(bench, swept.provenance), **_compared(swept)})
    return rows


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


def _draw(data: Json) -> Mapping[str, Figure]:
    figure, panels = drawing.grid(len(data))
    for row, axes in zip(data, panels, strict=True):
        scale, unit = drawing.joule_scale(row["energy_j"])
        flops, joules = np.array(row["flops"]) / 1e6, scale * np.array(row["energy_j"])
        axes.plot(flops, joules, "o-", color=BLUE, linewidth=0.9, markersize=3,
                  markerfacecolor=INK, markeredgecolor=INK, label="metered")  # fmt: skip
        ends = np.array([0, flops[-1]])
        axes.plot(ends, scale * row["joules_per_flop"] * 1e6 * ends, color=RED, linestyle="--",
                  label="proportional to FLOPs")  # fmt: skip
        axes.set_title(drawing.heading(row))
        axes.set_xlabel("MFLOP a step")
        axes.set_ylabel(f"{unit} a step")
        axes.set_xlim(0, 1.04 * flops[-1])
        axes.set_ylim(0, 1.15 * joules.max())
    text = f"A linear layer on batches of ({BATCH}, channels, {SIDE}, {SIDE}), 1 to 64 channels."
    return {"fig5": drawing.finish(figure, data, text, legend=2)}


def _table(data: Json) -> Page:
    errors = ("bend", "error_flops", "error_line", "error_process")
    rows = [(*drawing.where(row), *(f"{row[key]:.1f}" for key in errors)) for row in data]
    headers = ("device", "joules", "off the best line by up to %", "FLOPs: MAPE %", "line: MAPE %",
               "process: MAPE %")  # fmt: skip
    return drawing.page("Energy of a linear layer from its FLOPs", headers, rows)


def _sentence(data: Json) -> str:
    flops, line, process, bend = (
        [row[key] for row in data] for key in ("error_flops", "error_line", "error_process", "bend")
    )
    bent = holds([value > BENT for value in bend])
    better = holds([row["error_process"] < row["error_line"] for row in data])
    return (
        f"Joules per FLOP are off by {span(flops)} on average; of points that they were not told, a"
        f" straight line with an offset by {span(line)}, a process by {span(process)}. The best"
        f" line is up to {span(bend)} off; that energy is not linear in FLOPs (more than"
        f" {BENT:g} %): {bent}; that a process does better than a line: {better}."
    )


FIG5 = Experiment(
    "fig5",
    "Energy of a linear layer against FLOPs",
    "FLOPs grow linearly with the input channels, energy does not, and a Gaussian process fits it"
    " (section 3.3, Fig. 5).",
    _measure,
    _draw,
    _table,
    _sentence,
    networks=lambda sizes: sizes.sweep,
)
