"""The paper's method: from measured totals to a process per kind by subtraction (3.2 and 3.3).

Output layers first, then input layers, then hidden ones, each on what is left of a measured total
when the layers that are already known have been subtracted (eq. 1, 2). Where the paper is silent:

* A row serves a kind if that kind is the only one in it that is not known yet.
* Widths are scaled to [0, 1] over the range that was profiled; a length scale for each width.
* Joules are raw, not logarithms. The known noise of a point is the standard error of the measured
  total together with the standard deviation of what was subtracted; more noise is fitted on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer, Role
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Cost, Layerwise, typical_error, usable
from ampere.estimators.processes import gp
from ampere.records.measurement import Measurement

ORDER = (Role.LAST, Role.FIRST, Role.HIDDEN)


@dataclass(frozen=True)
class Point:
    """What subtraction left for one kind at certain widths."""

    widths: tuple[int, ...]
    cost: Cost


@dataclass(frozen=True)
class KindProcess:
    """The Gaussian processes of one kind, for joules and for seconds, over its widths."""

    kind: str
    names: tuple[str, ...]
    points: tuple[Point, ...]
    energy: gp.GaussianProcess
    time: gp.GaussianProcess | None

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The smallest and largest of each width that was profiled."""
        columns = zip(*(point.widths for point in self.points), strict=True)
        return tuple((min(column), max(column)) for column in columns)

    def scale(self, widths: Sequence[Sequence[int]]) -> Array:
        """Widths as the processes take them: 0 at the smallest profiled one, 1 at the largest."""
        x = np.asarray(widths, dtype=float).reshape(len(widths), len(self.names))
        return _scaled(x, self.bounds)

    def predict(self, widths: Mapping[str, int]) -> Cost:
        """Joules and seconds at these widths."""
        x = self.scale([[widths[name] for name in self.names]])
        mean, std = self.energy.predict(x)
        if self.time is None:
            return Cost(float(mean[0]), float(std[0]))
        time, time_std = self.time.predict(x)
        return Cost(float(mean[0]), float(std[0]), float(time[0]), float(time_std[0]))

    def is_outside(self, widths: Mapping[str, int]) -> bool:
        """Whether these widths lie outside what was profiled."""
        limits = zip(self.names, self.bounds, strict=True)
        return any(not low <= widths[name] <= high for name, (low, high) in limits)


@dataclass(frozen=True)
class KindHyper:
    """Hyper-parameters of one kind, where they are known before it is fitted."""

    energy: gp.Hyperparameters
    time: gp.Hyperparameters | None


@dataclass(frozen=True)
class PaperFit(Layerwise):
    """The paper's method: a process for each kind, fitted one after the other."""

    processes: Mapping[str, KindProcess]
    noise: float = 0.0  # relative error of one more measurement of a whole network
    method: str = field(default="paper", init=False)

    def cost(self, layer: Layer) -> Cost:
        """The posterior of the layer's kind at its widths."""
        process = self.processes.get(layer.kind.name)
        if process is None:
            raise NotCovered(f"{layer.kind.name} was never profiled")
        if set(layer.widths) != set(process.names):
            raise NotCovered(f"{layer.kind.name} was profiled over other widths: {process.names}")
        return process.predict(layer.widths)

    def is_extrapolated(self, layer: Layer) -> bool:
        """Whether the layer's widths lie outside what was profiled."""
        process = self.processes.get(layer.kind.name)
        return process is not None and process.is_outside(layer.widths)


def fit_paper(
    measurements: Sequence[Measurement],
    kernel: str = "matern52",
    hyper: Mapping[str, KindHyper] | None = None,
) -> PaperFit:
    """Fit every kind that subtraction can isolate; hyper-parameters that are given are kept."""
    rows = usable(measurements)
    if not rows:
        raise DataError("there is no measurement to fit: every row failed, or there are none")
    first_seen = {
        layer.kind.name: layer.kind.role for row in reversed(rows) for layer in row.layers
    }
    waiting = sorted(first_seen, key=lambda name: (ORDER.index(first_seen[name]), name))
    processes: dict[str, KindProcess] = {}
    surprises: list[float] = []
    while waiting:
        for name in waiting:
            chosen = isolating_rows(name, rows, processes)
            if chosen:
                points = isolated_points(name, chosen, processes)
                kept = None if hyper is None else hyper[name]
                processes[name] = fit_kind(name, points, kernel, kept)
                totals_j = [row.energy_j for row in chosen]
                surprises += _surprises(processes[name], totals_j)
                waiting.remove(name)
                break
        else:  # the rest cannot be told apart by subtraction
            break
    # A median, rescaled to a standard deviation: a single cliff must not widen every interval.
    typical_surprise = float(np.median(surprises)) / 0.6745 if surprises else 0.0
    return PaperFit(processes, max(typical_error(rows), typical_surprise))


def _surprises(process: KindProcess, totals_j: Sequence[float]) -> list[float]:
    """How far each point lies from what the others say, as a share of the measured totals.

    Bursts of one measurement agree better than measurements of different minutes do, and a process
    is surer of itself between its points than it should be; this counts both.
    """
    if len(process.points) < 4:  # without one of the bounds little is left to predict from
        return []
    return [float(abs(r)) for r in process.energy.leave_one_out() / np.median(totals_j)]


def isolating_rows(
    kind: str, rows: Sequence[Measurement], processes: Mapping[str, KindProcess]
) -> list[Measurement]:
    """The rows in which this kind is the only unknown one, and stands at one width only."""
    return [
        row
        for row in rows
        if len({layer.widths for layer in row.layers if layer.kind.name == kind}) == 1
        and all(layer.kind.name == kind or layer.kind.name in processes for layer in row.layers)
    ]


def isolated_points(
    kind: str, rows: Sequence[Measurement], processes: Mapping[str, KindProcess]
) -> list[tuple[Layer, Cost]]:
    """What is left for this kind of every row that isolates it (eq. 1, 2)."""
    points = []
    for row in isolating_rows(kind, rows, processes):
        ours = [layer for layer in row.layers if layer.kind.name == kind]
        others = [layer for layer in row.layers if layer.kind.name != kind]
        points.append(
            (ours[0], _subtract(row, sum(layer.count for layer in ours), others, processes))
        )
    return points


def _subtract(
    row: Measurement, count: int, others: Sequence[Layer], processes: Mapping[str, KindProcess]
) -> Cost:
    costs = [(layer.count, processes[layer.kind.name].predict(layer.widths)) for layer in others]
    total = row.energy_j
    energy = _left(total, row.error, [(n, c.energy_j, c.energy_j_std) for n, c in costs])
    seconds: list[tuple[int, float, float]] = []
    for n, cost in costs:
        if cost.time_s is not None and cost.time_s_std is not None:
            seconds.append((n, cost.time_s, cost.time_s_std))
    left = Cost(*(value / count for value in energy))
    if row.time_s_per_step is None or len(seconds) < len(costs):
        return left
    time_s, time_s_std = _left(row.time_s, row.error, seconds)
    return replace(left, time_s=time_s / count, time_s_std=time_s_std / count)


def _left(
    total: float, error: float, subtracted: Sequence[tuple[int, float, float]]
) -> tuple[float, float]:
    """What is left of a total, with its standard deviation; each is subtracted so many times."""
    var = (error * total) ** 2
    for count, mean, std in subtracted:
        total -= count * mean
        var += (count * std) ** 2
    return total, math.sqrt(var)


def fit_kind(
    kind: str,
    points: Sequence[tuple[Layer, Cost]],
    kernel: str = "matern52",
    hyper: KindHyper | None = None,
) -> KindProcess:
    """The processes of one kind over the points that subtraction left."""
    names = tuple(sorted(points[0][0].widths))
    if any(tuple(sorted(layer.widths)) != names for layer, _ in points):
        raise DataError(
            f"layers of kind {kind} have widths of different names, which the paper's method cannot"
            " compare: use method additive, or call them different kinds"
        )
    widths = np.array([[layer.widths[name] for name in names] for layer, _ in points], dtype=float)
    costs = [cost for _, cost in points]
    widths = widths.reshape(len(points), len(names))
    bounds = [(column.min(), column.max()) for column in widths.T]
    x = _scaled(widths, bounds)
    energy = gp.fit(
        x,
        [cost.energy_j for cost in costs],
        [cost.energy_j_std for cost in costs],
        kernel,
        hyper=None if hyper is None else hyper.energy,
    )
    time = None
    times = [cost.time_s for cost in costs if cost.time_s is not None]
    time_stds = [cost.time_s_std for cost in costs if cost.time_s_std is not None]
    if len(times) == len(costs):
        time = gp.fit(
            x,
            times,
            time_stds,
            kernel,
            hyper=None if hyper is None else hyper.time,
        )
    kept = tuple(
        Point(tuple(int(w) for w in row), cost) for row, cost in zip(widths, costs, strict=True)
    )
    return KindProcess(kind=kind, names=names, points=kept, energy=energy, time=time)


def _scaled(x: Array, bounds: Sequence[tuple[float, float]]) -> Array:
    low = np.array([b[0] for b in bounds], dtype=float)
    span = np.array([max(b[1] - b[0], 1) for b in bounds], dtype=float)
    scaled: Array = (x - low) / span
    return scaled
