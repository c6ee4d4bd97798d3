"""Figure 10: errors of ResNets of several depths as a distribution, and against their depth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import (
    beats_flops,
    cell,
    holds,
    mean_errors,
    span,
    table_of,
    where,
)
from ampere_paper.figures import canvas
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.trials import trials_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("flops", "neuralpower", "paper", "additive")
GROWS = 0.3  # rank correlation of error and depth from which on it is said to grow


class Fig10(Experiment):
    """ResNets of several depths."""

    name = "fig10"
    title = "ResNets of several depths"
    claim = (
        "ampere beats FLOPs on ResNets, and accuracy does not decrease with the number of"
        " layers (section 4.1, Fig. 10)."
    )
    figures = ("fig10",)
    families = ("resnet",)

    def measure(self, lab: Laboratory) -> Json:
        rows = []
        for trial in trials_of(lab, self.families):
            results = trial.evaluation.results
            errors = {
                method: [
                    100 * (result.estimates_j[method] / result.energy_j - 1) for result in results
                ]
                for method in SHOWN
                if all(method in result.estimates_j for result in results)
            }
            depths = [_depth(result.model) for result in results]
            rows.append(
                {
                    **trial.score(),
                    "depths": depths,
                    "errors": errors,
                    "rank_correlation": {m: _ranks(depths, errors[m]) for m in errors},
                }
            )
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        columns = len(data)
        figure, panels = canvas.grid(2 * columns, columns=max(2, columns), height_in=1.9)
        for row, top, bottom in zip(data, panels[:columns], panels[columns:], strict=True):
            _draw_cdf(top, row)
            _draw_depths(bottom, row)
        depths = span([depth for row in data for depth in row["depths"]], "", ".0f")
        text = f"Unseen ResNets of {depths} layers, batches of 10."
        return {"fig10": canvas.finish(figure, data, text, legend=4)}

    def table(self, data: Json) -> Page:
        rows = []
        for row in data:
            for method in row["errors"]:
                by_depth = _by_depth(row, method)
                depths = ", ".join(f"{depth}: {error:.1f}" for depth, error in by_depth.items())
                rows.append(
                    (
                        *where(row),
                        canvas.METHODS[method].label,
                        cell(row["mape"][method]),
                        f"{row['rank_correlation'][method]:+.2f}",
                        depths,
                    )
                )
        headers = (
            "device",
            "joules",
            "method",
            "MAPE %",
            "rank correlation with depth",
            "MAPE % by depth",
        )
        return table_of("ResNets by depth", headers, rows)

    def sentence(self, data: Json) -> str:
        ranks = [row["rank_correlation"]["paper"] for row in data]
        own = [row["rank_correlation"]["additive"] for row in data]
        return (
            f"{mean_errors(data)}; that it beats FLOPs: {beats_flops(data)}."
            f" Error and depth have a rank correlation of {span(ranks, '', '+.2f')}"
            f" by the paper's method ({span(own, '', '+.2f')} additive); that error does not grow"
            f" with depth (under {GROWS:+g}): {holds([value < GROWS for value in ranks])}."
        )


def _depth(model: str) -> int:
    named = re.search(r"depth=(\d+)", model)
    return int(named[1]) if named else 20


def _ranks(depths: list[int], errors: list[float]) -> float:
    """Spearman's correlation of the size of errors with depth; 0 where one of them is constant."""
    from scipy.stats import rankdata

    if len(set(depths)) < 2 or len(set(errors)) < 2:
        return 0.0
    return float(np.corrcoef(rankdata(depths), rankdata(np.abs(errors)))[0, 1])


def _by_depth(row: Json, method: str) -> dict[int, float]:
    """Mean absolute error in percent, by depth."""
    depths, errors = np.array(row["depths"]), np.abs(row["errors"][method])
    return {int(depth): float(errors[depths == depth].mean()) for depth in sorted(set(depths))}


def _draw_cdf(axes: Axes, row: Json) -> None:
    for method in row["errors"]:
        look = canvas.METHODS[method]
        errors = np.sort(np.abs(row["errors"][method]))
        shares = 100 * np.arange(1, len(errors) + 1) / len(errors)
        axes.step([0, *errors], [0, *shares], where="post", color=look.color, label=look.label)
    axes.set_title(canvas.heading(row))
    axes.set_xlabel("absolute error (%)")
    axes.set_ylabel("models (%)")
    axes.set_ylim(0, 101)
    largest = max(abs(error) for errors in row["errors"].values() for error in errors)
    axes.set_xlim(0, min(100, 1.05 * largest))


def _draw_depths(axes: Axes, row: Json) -> None:
    for method in row["errors"]:
        look = canvas.METHODS[method]
        by_depth = _by_depth(row, method)
        axes.plot(list(by_depth), list(by_depth.values()), look.marker, linestyle="-", markersize=3,
                  color=look.color, linewidth=1.0)  # fmt: skip
    axes.set_title(canvas.heading(row))
    axes.set_xticks(sorted(set(row["depths"])))
    axes.set_xlabel("depth (layers)")
    axes.set_ylabel("mean error (%)")
    axes.set_ylim(bottom=0)
