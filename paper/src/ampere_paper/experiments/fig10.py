"""Figure 10: errors of ResNets of several depths as a distribution, and against their depth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper import drawing
from ampere_paper.experiments.experiment import (
    Experiment,
    beats_flops,
    cell,
    holds,
    mean_errors,
    span,
)
from ampere_paper.laboratory import Laboratory
from ampere_paper.surveys import surveys

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("flops", "neuralpower", "paper", "additive")
GROWS = 0.3  # rank correlation of error and depth from which on it is said to grow


def _measure(lab: Laboratory) -> Json:
    found = []
    for each in surveys(lab, ("resnet",)):
        results = each.evaluation.results
        errors = {
            method: [100 * (result.estimates_j[method] / result.energy_j - 1) for result in results]
            for method in SHOWN
            if all(method in result.estimates_j for result in results)
        }
        depths = [_depth(result.model) for result in results]
        found.append(
            {
                **each.score(),
                "depths": depths,
                "errors": errors,
                "rank_correlation": {m: _ranks(depths, errors[m]) for m in errors},
            }
        )
    return found


def _depth(model: str) -> int:
    found = re.search(r"depth=(\d+)", model)
    return int(found[1]) if found else 20


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


def _draw(data: Json) -> Mapping[str, Figure]:
    columns = len(data)
    figure, panels = drawing.grid(2 * columns, columns=max(2, columns), height_in=1.9)
    for row, top, bottom in zip(data, panels[:columns], panels[columns:], strict=True):
        _draw_cdf(top, row)
        _draw_depths(bottom, row)
    text = f"Unseen ResNets of {span([d for row in data for d in row['depths']], '', '.0f')} layers"
    text += ", batches of 10."
    return {"fig10": drawing.finish(figure, data, text, legend=4)}


def _draw_cdf(axes: Axes, row: Json) -> None:
    for method in row["errors"]:
        look = drawing.METHODS[method]
        errors = np.sort(np.abs(row["errors"][method]))
        shares = 100 * np.arange(1, len(errors) + 1) / len(errors)
        axes.step([0, *errors], [0, *shares], where="post", color=look.color, label=look.label)
    axes.set_title(drawing.heading(row))
    axes.set_xlabel("absolute error (%)")
    axes.set_ylabel("models (%)")
    axes.set_ylim(0, 101)
    largest = max(abs(error) for errors in row["errors"].values() for error in errors)
    axes.set_xlim(0, min(100, 1.05 * largest))


def _draw_depths(axes: Axes, row: Json) -> None:
    for method in row["errors"]:
        look = drawing.METHODS[method]
        found = _by_depth(row, method)
        axes.plot(list(found), list(found.values()), look.marker, linestyle="-", markersize=3,
                  color=look.color, linewidth=1.0)  # fmt: skip
    axes.set_title(drawing.heading(row))
    axes.set_xticks(sorted(set(row["depths"])))
    axes.set_xlabel("depth (layers)")
    axes.set_ylabel("mean error (%)")
    axes.set_ylim(bottom=0)


def _table(data: Json) -> Page:
    rows = []
    for row in data:
        for method in row["errors"]:
            found = _by_depth(row, method)
            depths = ", ".join(f"{depth}: {error:.1f}" for depth, error in found.items())
            rows.append((*drawing.where(row), drawing.METHODS[method].label,
                         cell(row["mape"][method]), f"{row['rank_correlation'][method]:+.2f}",
                         depths))  # fmt: skip
    headers = ("device", "joules", "method", "MAPE %", "rank correlation with depth",
               "MAPE % by depth")  # fmt: skip
    return drawing.page("ResNets by depth", headers, rows)


def _sentence(data: Json) -> str:
    ranks = [row["rank_correlation"]["paper"] for row in data]
    own = [row["rank_correlation"]["additive"] for row in data]
    return (
        f"{mean_errors(data)}; that it beats FLOPs: {beats_flops(data)}."
        f" Error and depth have a rank correlation of {span(ranks, '', '+.2f')}"
        f" by the paper's method ({span(own, '', '+.2f')} additive); that error does not grow with"
        f" depth (under {GROWS:+g}): {holds([value < GROWS for value in ranks])}."
    )


FIG10 = Experiment(
    "fig10",
    "ResNets of several depths",
    "ampere beats FLOPs on ResNets, and accuracy does not decrease with the number of layers"
    " (section 4.1, Fig. 10).",
    _measure,
    _draw,
    _table,
    _sentence,
    ("resnet",),
)
