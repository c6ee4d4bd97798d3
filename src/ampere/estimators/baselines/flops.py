"""Joules and seconds from FLOPs, the usual proxy (paper, sections 2.1 and 2.2).

    flops           total = b · FLOPs          a device has one number of joules per FLOP
    flops_affine    total = a + b · FLOPs      and a step costs something whatever it computes

Both are calibrated on a profile's whole training steps, variants and networks alike.

`flops`: least squares through the origin on the totals as they are. That favours the large ones, on
purpose: joules per FLOP are quoted for them, and overheads, for which this line has no term, hardly
touch them.

`flops_affine`: least squares of relative errors, with neither a nor b below 0. It has that term,
and small networks are what teaches it; noise grows with the total, and errors are judged in
percent. Absolute errors make the weaker baseline: the few largest totals leave the constant to
chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer, Role
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Cost, Layerwise, usable
from ampere.records.measurement import Measurement

Solve = Callable[[Array, Array, Array], tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """`constant + per_flop · FLOPs`, and how far from it the totals lie, relatively."""

    constant: float
    per_flop: float
    error: float

    def at(self, layer: Layer, flops: float) -> tuple[float, float]:
        """One layer's share, with its standard deviation."""
        constant = self.constant if layer.kind.role is Role.LAST else 0.0
        share = constant + self.per_flop * flops
        return share, self.error * share


@dataclass(frozen=True)
class FlopsFit(Layerwise):
    """Joules and seconds as lines over FLOPs.

    The constant is charged to the layer whose role is LAST: every network that ampere reads or
    builds has exactly one, so it is charged once. All layers share one error, and a sum that takes
    them as independent understates it.
    """

    energy: Line
    time: Line | None
    method: str = "flops"

    def cost(self, layer: Layer) -> Cost:
        """The layer's FLOPs times what one takes, and the constant if it is the LAST."""
        flops = layer.features.flops
        if flops is None:
            raise NotCovered(f"the FLOPs of {layer.name} are not known: add them to its features")
        seconds = () if self.time is None else self.time.at(layer, flops)
        return Cost(*self.energy.at(layer, flops), *seconds)


def fit_flops(measurements: Sequence[Measurement]) -> FlopsFit:
    """Calibrate joules and seconds per FLOP on whole training steps."""
    return _fit(measurements, _proportional, "flops")


def fit_flops_affine(measurements: Sequence[Measurement]) -> FlopsFit:
    """Calibrate a constant as well; it is 0 where rows of one size cannot tell it from the rest."""
    return _fit(measurements, _affine, "flops_affine")


def _fit(measurements: Sequence[Measurement], solve: Solve, method: str) -> FlopsFit:
    totals = [
        (_lasts(row), flops, row.energy_j, row.time_s)
        for row in usable(measurements)
        if (flops := _flops(row)) is not None
    ]
    if not any(flops for _, flops, _, _ in totals):
        raise DataError(
            f"nothing to calibrate joules per FLOP on: none of {len(measurements)} measurements is"
            " a whole training step that succeeded and has FLOPs for every layer"
        )
    lasts, flops, joules, seconds = np.array(totals, dtype=float).T
    energy = _line(solve, lasts, flops, joules)
    timed = np.isfinite(seconds)  # seconds are optional in a row
    time = None
    if flops[timed].any():
        time = _line(solve, lasts[timed], flops[timed], seconds[timed])
    return FlopsFit(energy=energy, time=time, method=method)


def _lasts(row: Measurement) -> int:
    return sum(layer.count for layer in row.layers if layer.kind.role is Role.LAST)


def _flops(row: Measurement) -> float | None:
    """The FLOPs of the whole network, unless a layer's are missing."""
    counted = [
        layer.count * layer.features.flops
        for layer in row.layers
        if layer.features.flops is not None
    ]
    return math.fsum(counted) if len(counted) == len(row.layers) else None


def _line(solve: Solve, lasts: Array, flops: Array, totals: Array) -> Line:
    constant, per_flop = solve(lasts, flops, totals)
    misses = 1 - (constant * lasts + per_flop * flops) / totals
    spare = max(len(totals) - (constant > 0) - (per_flop > 0), 1)
    return Line(constant, per_flop, math.sqrt(misses @ misses / spare))


def _proportional(lasts: Array, flops: Array, totals: Array) -> tuple[float, float]:
    return 0.0, float(flops @ totals / (flops @ flops))


def _affine(lasts: Array, flops: Array, totals: Array) -> tuple[float, float]:
    """Least relative squares with neither coefficient below 0."""
    columns = np.column_stack([lasts, flops]) / totals[:, None]
    sizes = np.linalg.norm(columns, axis=0)
    sizes[sizes == 0] = 1.0
    ones = np.ones(len(totals))
    scaled, _, rank, _ = np.linalg.lstsq(columns / sizes, ones, rcond=None)
    constant, per_flop = scaled / sizes
    # Totals and columns are positive, so at most one coefficient falls below 0, and then the best
    # that is allowed has it at 0 and the other one fitted alone.
    if rank < 2 or constant < 0:
        return 0.0, _alone(columns[:, 1])
    if per_flop < 0:
        return _alone(columns[:, 0]), 0.0
    return float(constant), float(per_flop)


def _alone(column: Array) -> float:
    return float(column.sum() / (column @ column))
