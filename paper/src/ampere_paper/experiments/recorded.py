"""Recorded energies of real meters, published by others: some are known, the others asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.progress import Event
from ampere.core.groups import grouped
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import NotCovered
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, table_of
from ampere_paper.figures import canvas
from ampere_paper.figures.style import new_figure
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.published.cases import make_cases
from ampere_paper.published.datasets import SOURCES, read_sets
from ampere_paper.published.intel import sweeps
from ampere_paper.published.scores import examine, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = {"full": 5}  # random splits at most; other plans have one
METHODS = ("additive", "roofline", "flops_affine")  # benchmarks/recorded.py asks others, too
WHOSE = [{"provenance": "recorded", "title": "others' meters"}]


class RecordedEnergies(Experiment):
    """Energies recorded by others."""

    name = "recorded"
    title = "Energies recorded by others"
    claim = "Not in the paper: real meters, published data sets."
    figures = ("recorded",)
    recorded = True

    def measure(self, lab: Laboratory) -> Json:
        folder = lab.plan.recorded
        if folder is None:
            raise NotCovered("published energies are looked at with --recorded DIR")
        sets, swept = read_sets(folder), sweeps(folder)
        cases = make_cases(sets, swept, SEEDS.get(lab.plan.name, 1))
        rows = []
        for i, case in enumerate(cases):
            lab.watch(Event(f"recorded: {case.name}", i, len(cases), 0.0))
            rows += [examine(case, method) for method in METHODS]
        return {"rows": rows, "sets": [summary(data) for data in (*sets.values(), *swept)]}

    def draw(self, data: Json) -> Mapping[str, Figure]:
        cases = grouped(data["rows"], lambda row: row["case"])
        figure = new_figure(5.6, 0.34 * len(cases) + 1.3)
        axes = figure.subplots()
        places = np.arange(len(cases))[::-1]
        for i, method in enumerate(METHODS):
            look = canvas.METHODS[method]
            widths = [100 * _of(rows, method)["mape"] for rows in cases]
            axes.barh(places + 0.26 * (1 - i), widths, 0.24, color=look.color, label=look.label)
        bars = [
            (y, 100 * rows[0]["bar"])
            for y, rows in zip(places, cases, strict=True)
            if rows[0]["bar"]
        ]
        axes.vlines(
            [x for _, x in bars],
            [y - 0.42 for y, _ in bars],
            [y + 0.42 for y, _ in bars],
            color="black",
            linewidth=1,
            label="wanted",
        )
        axes.set_yticks(places, [rows[0]["case"] for rows in cases])
        axes.tick_params("y", length=0)
        axes.grid(False, axis="y")
        axes.set_xlabel("MAPE on what was not known (%)")
        text = f"What was known of each data set is named on the left. {SOURCES}"
        return {"recorded": canvas.finish(figure, WHOSE, text, legend=4)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                row["case"],
                canvas.METHODS[row["method"]].label,
                str(max(row["known"])),
                str(max(row["asked"])),
                f"{100 * row['mape']:.1f}",
                "–" if row["bar"] is None else f"{100 * row['bar']:g}",
                f"{100 * row['median_error']:.1f}",
                f"{100 * row['coverage']:.0f}",
            )
            for row in data["rows"]
        ]
        headers = (
            "known",
            "method",
            "n known",
            "n asked",
            "MAPE %",
            "wanted %",
            "median error %",
            "in 90 % interval %",
        )
        return table_of("Energies recorded by others", headers, rows)

    def sentence(self, data: Json) -> str:
        cases = grouped(data["rows"], lambda row: row["case"])
        better = [
            _of(rows, "additive")["mape"] <= min(row["mape"] for row in rows[1:]) for rows in cases
        ]
        kept = [row for row in data["rows"] if row["bar"] is not None]
        errors = ", ".join(f"{100 * row['mape']:.1f} % ({row['case']})" for row in kept)
        inside = sum(row["mape"] <= row["bar"] for row in kept)
        return (
            f"On joules that others metered the additive method is off by {errors}; {inside} of"
            f" {len(kept)} are within what was wanted. That it does no worse than roofline and"
            f" FLOPs: {holds(better, 'case')}."
        )


def _of(rows: Sequence[Json], method: str) -> Json:
    return next(row for row in rows if row["method"] == method)
