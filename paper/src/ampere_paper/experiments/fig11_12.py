"""Figures 11 and 12: energy of convolutions over their channels, with samples and differences."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.layers import Role
from ampere.core.page import Page
from ampere.core.program.widths import Widths
from ampere.core.types import Json
from ampere.core.variants import Isolation, Variant, isolate
from ampere.core.workloads import ModelSpec
from ampere.errors import NotCovered
from ampere.estimators.paper import KindProcess, PaperFit, fit_paper, isolated_points
from ampere.records.measurement import succeeded
from ampere.reports import parts as page_parts
from ampere.reports.surface import TURNING, Peak, surface
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import holds, span, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import BLUE, INK, PAGE_IN, RED, new_figure
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.notebooks import network
from ampere_paper.lab.plans import Sizes
from ampere_paper.lab.trials import Trial, trial_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID = 17  # points along each width of a surface
SEED = 2000


class Fig11And12(Experiment):
    """Energy of convolutions over their channels."""

    name = "fig11_12"
    title = "Energy of convolutions over their channels"
    claim = (
        "Energy varies non-linearly with input and output channels, smoothly where maps are"
        " large (section 4.2, Fig. 11 and 12, Xavier and server)."
    )
    figures = ("fig11", "fig12")
    families = ("cnn5",)

    def measure(self, lab: Laboratory) -> Json:
        rows = [
            row
            for bench in lab.benches
            if lab.sizes(bench).tests and "cnn5" in lab.sizes(bench).families
            for row in _surfaces(lab, trial_of(lab, bench, "cnn5"))
        ]
        if not rows:
            raise NotCovered("none of these devices has surfaces in its plan")
        return rows

    def draw(self, data: Json) -> Mapping[str, Figure]:
        return {"fig11": _draw_surfaces(data), "fig12": _draw_differences(data)}

    def table(self, data: Json) -> Page:
        rows = [
            (
                *where(row),
                f"{row['side']}×{row['side']}",
                str(len(row["samples"])),
                str(len(row["tests"])),
                units.joules(max(test[2] for test in row["tests"])),
                f"{fmean(map(abs, _errors(row))):.1f}",
                f"{max(map(abs, _errors(row))):.1f}",
            )
            for row in data
        ]
        headers = (
            "device",
            "joules",
            "map",
            "samples",
            "tests",
            "largest test",
            "mean difference %",
            "largest %",
        )
        title = (
            "Estimated and observed layers, differences in percent of the surface's largest value"
        )
        return table_of(title, headers, rows)

    def sentence(self, data: Json) -> str:
        means = [fmean(map(abs, _errors(row))) for row in data]
        bends = [_bend(row) for row in data]
        return (
            f"Layers that were not profiled differ from their surface by {span(means)} of its"
            f" largest value on average (median {median(means):.1f} %). Along either side a surface"
            f" is up to {span(bends, form='.0f')} away from a plane; that energy varies"
            f" non-linearly (more than 10 %): {holds([bend > 10 for bend in bends], 'surface')}."
        )

    def parts(self, data: Json) -> tuple[page_parts.Part, ...]:
        """The same surfaces, to be turned by hand."""
        return (page_parts.Text(TURNING), page_parts.Chooser(tuple(map(_turning_surface, data))))

    def networks(self, sizes: Sizes) -> int:
        return 3 * sizes.tests


def _surfaces(lab: Laboratory, trial: Trial) -> list[dict[str, Json]]:
    """A surface for each map size, and layers beside its samples that it has not seen."""
    from ampere.frameworks.models import layers_of, plan_variants

    fit = fit_paper(trial.variants)
    hidden = [
        isolation
        for isolation in plan_variants(layers_of(ModelSpec("zoo:cnn5"))).isolations
        if isolation.kind.role is Role.HIDDEN
    ]
    tests = {
        isolation.kind.name: _unseen(isolation, lab.sizes(trial.bench).tests)
        for isolation in hidden
    }
    variants = [variant for some in tests.values() for variant in some]
    with lab.notebook(trial.bench, "surfaces") as book:
        measured = book.measure([network(str(each), each.layers) for each in variants])
    rows = succeeded([row for (row,) in measured], "a network")
    return [
        {
            **trial.place,
            "side": int(isolation.kind.attributes["height"]),
            **_surface(fit.processes[isolation.kind.name], isolation),
            "tests": _compared(isolation, fit, rows),
        }
        for isolation in hidden
    ]


def _unseen(isolation: Isolation, count: int) -> list[Variant]:
    """Different variants at random widths."""
    rng = random.Random(f"{SEED} {isolation.kind.name}")
    chosen: set[Widths] = set()
    while len(chosen) < count:
        chosen.add(
            Widths(
                {
                    name: step * rng.randint(1, isolation.bounds[name][1] // step)
                    for name, step in isolation.steps.items()
                }
            )
        )
    return [
        isolate(isolation, widths) for widths in sorted(chosen, key=lambda w: tuple(w.values()))
    ]


def _surface(process: KindProcess, isolation: Isolation) -> dict[str, Json]:
    """What the process says on a grid of channels, and what it was fitted to."""
    axes = [
        sorted({round(width) for width in np.linspace(*isolation.bounds[name], GRID)})
        for name in process.names
    ]
    points = [[a, b] for a in axes[0] for b in axes[1]]
    mean, _ = process.energy.predict(process.scale(points))
    return {
        "in": axes[0],
        "out": axes[1],
        "mean_j": mean.reshape(len(axes[0]), len(axes[1])).tolist(),
        "samples": [[*point.widths, point.cost.energy_j] for point in process.points],
    }


def _compared(isolation: Isolation, fit: PaperFit, rows: Sequence[Any]) -> list[list[float]]:
    """Channels in and out, joules of the layer as subtraction leaves them, and as estimated."""
    name = isolation.kind.name
    others = {kind: process for kind, process in fit.processes.items() if kind != name}
    return [
        [
            *(float(layer.widths[width]) for width in ("in", "out")),
            left.energy_j,
            fit.processes[name].predict(layer.widths).energy_j,
        ]
        for layer, left in isolated_points(name, rows, others)
    ]


def _errors(row: Json) -> list[float]:
    """Of the estimates, in percent of the surface's largest value.

    What subtraction leaves of a small layer may be next to nothing, or less.
    """
    largest = np.abs(row["mean_j"]).max()
    return [float(100 * (test[3] - test[2]) / largest) for test in row["tests"]]


def _layout(data: Json) -> tuple[list[list[Json]], int]:
    benches = grouped(data, lambda row: row["bench"])
    return benches, max(map(len, benches))


def _draw_surfaces(data: Json) -> Figure:
    benches, columns = _layout(data)
    height_in = 2.3 * len(benches) + 0.25
    figure = new_figure(PAGE_IN, height_in)
    figure.set_layout_engine("none")  # it does not know how much room three dimensions take
    for i, rows in enumerate(benches):
        for j, row in enumerate(rows):
            left, bottom = j / columns, 1 - 2.3 * (i + 1) / height_in
            place = (left + 0.035, bottom + 0.01, 1 / columns - 0.045, 2.3 / height_in - 0.04)
            axes: Any = figure.add_axes(place, projection="3d")
            _draw_surface(axes, row)
    text = "Profiled samples: blue. Further layers: red. Surface: the paper's method."
    return canvas.finish(figure, data, f"Convolutions of the 5-layer CNN, batches of 10. {text}")


def _draw_surface(axes: Any, row: Json) -> None:
    mean = np.array(row["mean_j"])
    scale, unit = canvas.joule_scale(mean.ravel().tolist())
    x, y = np.meshgrid(row["in"], row["out"], indexing="ij")
    axes.plot_surface(x, y, scale * mean, cmap="viridis", alpha=0.55, linewidth=0.2,
                      edgecolor="#ffffff60", rstride=1, cstride=1)  # fmt: skip
    samples, tests = np.array(row["samples"]), np.array(row["tests"])
    axes.scatter(*samples[:, :2].T, scale * samples[:, 2], color=BLUE, s=7, depthshade=False)
    axes.scatter(*tests[:, :2].T, scale * tests[:, 2], color=RED, s=14, marker="x",
                 depthshade=False)  # fmt: skip
    axes.set_title(f"{canvas.heading(row, ', ')}\nmap {row['side']}×{row['side']}", y=0.97)
    axes.set_xlabel("C in", labelpad=-9)
    axes.set_ylabel("C out", labelpad=-9)
    axes.set_zlabel(f"energy ({unit})", labelpad=-8)
    axes.tick_params(pad=-4, labelsize=5.5)
    axes.view_init(elev=22, azim=-128)
    axes.set_box_aspect((1, 1, 0.8), zoom=0.92)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.pane.set_facecolor("#fafafa")
        axis.pane.set_edgecolor("#dddddd")


def _turning_surface(row: Json) -> page_parts.Figure:
    label = f"{canvas.heading(row, ', ')}, map {row['side']}×{row['side']}"
    peaks = [
        Peak(c_in, c_out, energy_j, f"in={c_in:.0f}, out={c_out:.0f}: {units.joules(energy_j)}")
        for c_in, c_out, energy_j, *_ in (*row["samples"], *row["tests"])
    ]
    caption = (
        "A convolution, estimated by the paper's method; dots are layers that were profiled, and"
        f" others. {canvas.origins([row])}"
    )
    title = f"Joules over input and output channels: {label}"
    svg = surface(
        row["in"],
        row["out"],
        row["mean_j"],
        peaks,
        title=title,
        description=caption,
        axis_names=("in", "out"),
    )
    return page_parts.Figure(f"surface {label}", svg, caption, label)


def _draw_differences(data: Json) -> Figure:
    benches, columns = _layout(data)
    figure, panels = canvas.grid(len(benches) * columns, columns=columns, height_in=1.9)
    largest = max(abs(error) for row in data for error in _errors(row))
    for row, axes in zip(data, panels, strict=True):
        x, y = np.array(row["tests"])[:, :2].T
        shown = axes.scatter(x, y, c=_errors(row), cmap="RdBu_r", vmin=-largest,
                             vmax=largest, s=26, edgecolor=INK, linewidth=0.4)  # fmt: skip
        axes.set_title(f"{canvas.heading(row, ', ')}\nmap {row['side']}×{row['side']}")
        axes.set_xlim(0, 1.05 * max(row["in"]))
        axes.set_ylim(0, 1.05 * max(row["out"]))
        axes.set_xlabel("C in")
        axes.set_ylabel("C out")
    figure.colorbar(shown, ax=panels, shrink=0.9, aspect=25, label="difference (%)")
    text = (
        "Estimated less observed joules of layers that were not profiled, in percent of the largest"
        " of each surface, by the paper's method; batches of 10."
    )
    return canvas.finish(figure, data, text)


def _bend(row: Json) -> float:
    """How far a surface is from the best plane through it, in percent of its largest value."""
    mean = np.array(row["mean_j"])
    x, y = np.meshgrid(row["in"], row["out"], indexing="ij")
    design = np.column_stack([np.ones(mean.size), x.ravel(), y.ravel()])
    plane = design @ np.linalg.lstsq(design, mean.ravel(), rcond=None)[0]
    return float(100 * np.abs(mean.ravel() - plane).max() / np.abs(mean).max())
