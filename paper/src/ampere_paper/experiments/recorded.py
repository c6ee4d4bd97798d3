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
from ampere_paper import drawing
from ampere_paper.experiments.experiment import Experiment, holds
from ampere_paper.figures import new_figure
from ampere_paper.laboratory import Laboratory
from ampere_paper.published import METHODS, SOURCES, examine, make_cases, read_sets, summary, sweeps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = {"full": 5}  # random splits at most; other plans have one
WHOSE = [{"provenance": "recorded", "title": "others' meters"}]


def _measure(lab: Laboratory) -> Json:
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


def _draw(data: Json) -> Mapping[str, Figure]:
    cases = grouped(data["rows"], lambda row: row["case"])
    figure = new_figure(5.6, 0.34 * len(cases) + 1.3)
    axes = figure.subplots()
    places = np.arange(len(cases))[::-1]
    for i, method in enumerate(METHODS):
        look = drawing.METHODS[method]
        widths = [100 * _of(rows, method)["mape"] for rows in cases]
        axes.barh(places + 0.26 * (1 - i), widths, 0.24, color=look.color, label=look.label)
    bars = [(y, 100 * rows[0]["bar"]) for y, rows in zip(places, cases, strict=True)
            if rows[0]["bar"]]  # fmt: skip
    axes.vlines([x for _, x in bars], [y - 0.42 for y, _ in bars], [y + 0.42 for y, _ in bars],
                color="black", linewidth=1, label="wanted")  # fmt: skip
    axes.set_yticks(places, [rows[0]["case"] for rows in cases])
    axes.tick_params("y", length=0)
    axes.grid(False, axis="y")
    axes.set_xlabel("MAPE on what was not known (%)")
    text = f"What was known of each data set is named on the left. {SOURCES}"
    return {"recorded": drawing.finish(figure, WHOSE, text, legend=4)}


def _of(rows: Sequence[Json], method: str) -> Json:
    return next(row for row in rows if row["method"] == method)


def _table(data: Json) -> Page:
    rows = [
        (
            row["case"],
            drawing.METHODS[row["method"]].label,
            str(max(row["known"])),
            str(max(row["asked"])),
            f"{100 * row['mape']:.1f}",
            "–" if row["bar"] is None else f"{100 * row['bar']:g}",
            f"{100 * row['median_error']:.1f}",
            f"{100 * row['coverage']:.0f}",
        )
        for row in data["rows"]
    ]
    headers = ("known", "method", "n known", "n asked", "MAPE %", "wanted %", "median error %",
               "in 90 % interval %")  # fmt: skip
    return drawing.page("Energies recorded by others", headers, rows)


def _sentence(data: Json) -> str:
    cases = grouped(data["rows"], lambda row: row["case"])
    better = [
        _of(rows, "additive")["mape"] <= min(row["mape"] for row in rows[1:]) for rows in cases
    ]
    kept = [row for row in data["rows"] if row["bar"] is not None]
    said = ", ".join(f"{100 * row['mape']:.1f} % ({row['case']})" for row in kept)
    inside = sum(row["mape"] <= row["bar"] for row in kept)
    return (
        f"On joules that others metered the additive method is off by {said}; {inside} of"
        f" {len(kept)} are within what was wanted. That it does no worse than roofline and FLOPs:"
        f" {holds(better, 'case')}."
    )


RECORDED = Experiment(
    "recorded",
    "Energies recorded by others",
    "Not in the paper: real meters, published data sets.",
    _measure,
    _draw,
    _table,
    _sentence,
    recorded=True,
)
