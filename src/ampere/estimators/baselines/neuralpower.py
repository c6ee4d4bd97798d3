"""NeuralPower (Cai et al., 2017), extended to training as the paper does (sections 2.2 and 3.2).

Each layer is measured on its own, each stage of its step on its own, and a polynomial over the
widths is fitted to each; a network is the sum over stages and layers. What a step saves because its
stages and layers follow one another (data that are still in the cache) is counted again and again,
so the sum tends to be too high: the paper's Figure 2. The `forward` of a last layer also holds the
loss; other layers have none, their backward pass starts from random gradients.

The original predicts power and runtime of inference over all sizes of a layer type, with terms for
operations and memory accesses, and drops terms by lasso. Here a kind holds those sizes fixed, so a
full polynomial of degree 2 over the widths remains, in joules and in seconds.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.program.widths import Widths
from ampere.core.variants import Isolation, Plan
from ampere.core.workloads import Workload
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Cost, Layerwise
from ampere.records.measurement import Measurement

STAGES = ("forward", "backward", "update")
DEGREE = 2

Key = tuple[str, tuple[str, ...]]  # a kind and the names of its widths
Point = tuple[int, ...]


@dataclass(frozen=True)
class Polynomial:
    """A polynomial over widths that are scaled to [0, 1], and how far its points lie from it."""

    bounds: tuple[tuple[int, int], ...]
    powers: tuple[Point, ...]
    coefficients: tuple[float, ...]
    std: float

    def at(self, point: Point) -> float:
        """The value at these widths."""
        return float((_monomials([point], self.bounds, self.powers) @ self.coefficients)[0])


@dataclass(frozen=True)
class StageCost:
    """Joules and seconds of one stage of one kind."""

    energy: Polynomial
    time: Polynomial | None


@dataclass(frozen=True)
class NeuralPowerFit(Layerwise):
    """Polynomials for each kind and stage, from measurements of each alone."""

    stages: Mapping[Key, Mapping[str, StageCost]]
    method: str = field(default="neuralpower", init=False)

    def cost(self, layer: Layer) -> Cost:
        """The sum of the layer's three stages."""
        stages = self.stages.get(_key(layer), {})
        missing = [stage for stage in STAGES if stage not in stages]
        if missing:
            widths = ", ".join(layer.widths) or "no widths"
            raise NotCovered(
                f"{layer.kind.name} over {widths} was never measured alone: {', '.join(missing)}"
            )
        point = _point(layer)
        energy = [stages[stage].energy for stage in STAGES]
        timed = [each for stage in STAGES if (each := stages[stage].time) is not None]
        seconds = _summed(timed, point) if len(timed) == len(STAGES) else ()
        return Cost(*_summed(energy, point), *seconds)

    def is_extrapolated(self, layer: Layer) -> bool:
        """Whether the layer's widths lie outside those that were measured."""
        return any(
            not low <= width <= high
            for stage in self.stages.get(_key(layer), {}).values()
            for width, (low, high) in zip(_point(layer), stage.energy.bounds, strict=True)
        )


def _summed(stages: Sequence[Polynomial], point: Point) -> tuple[float, float]:
    """What the stages take together, with its standard deviation."""
    total = math.fsum(polynomial.at(point) for polynomial in stages)
    return total, math.hypot(*(polynomial.std for polynomial in stages))


def fit_neuralpower(measurements: Sequence[Measurement]) -> NeuralPowerFit:
    """Fit every kind and stage that was measured alone."""
    alone: dict[Key, dict[str, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for row in measurements:
        if row.failed is None and row.stage in STAGES and _is_single(row):
            alone[_key(row.layers[0])][row.stage].append(row)
    if not alone:
        raise DataError(
            f"none of {len(measurements)} measurements is of one layer's forward, backward or"
            " update alone: measure isolated_workloads(plan, kinds) first"
        )
    return NeuralPowerFit(
        {
            key: {stage: _fit_stage(rows) for stage, rows in stages.items()}
            for key, stages in alone.items()
        }
    )


def isolated_workloads(
    plan: Plan, kinds: Collection[str], levels: int | None = None
) -> list[tuple[Workload, tuple[Layer, ...]]]:
    """What to measure for these kinds: 4 widths, or 3 × 3 of two, at each of the three stages.

    Widths are evenly spaced between the plan's bounds, and fewer where too few are allowed. A kind
    that the plan has no bounds for stays out, and is not covered later. `levels` is another number
    of sizes of each width.
    """
    layers = [
        Layer(isolation.kind.role.value, isolation.kind, widths)
        for isolation in plan.isolations
        if isolation.kind.name in kinds
        for widths in _design(isolation, levels)
    ]
    return [(Workload((layer,), stage=stage), (layer,)) for layer in layers for stage in STAGES]


def _design(isolation: Isolation, levels: int | None) -> list[Widths]:
    names = sorted(isolation.bounds)
    levels = levels or (4 if len(names) == 1 else 3)
    axes = [_spaced(*isolation.bounds[name], isolation.steps[name], levels) for name in names]
    return [Widths(dict(zip(names, point, strict=True))) for point in itertools.product(*axes)]


def _spaced(low: int, high: int, step: int, levels: int) -> list[int]:
    first, last = max(1, -(-low // step)), high // step
    if first > last:  # no multiple lies between: the smallest size that can be built
        return [step]
    return sorted({step * round(value) for value in np.linspace(first, last, levels)})


def _key(layer: Layer) -> Key:
    return layer.kind.name, tuple(layer.widths)


def _point(layer: Layer) -> Point:
    return tuple(layer.widths.values())


def _is_single(row: Measurement) -> bool:
    return len(row.layers) == 1 and row.layers[0].count == 1


def _fit_stage(rows: Sequence[Measurement]) -> StageCost:
    points = [_point(row.layers[0]) for row in rows]
    bounds = tuple((min(column), max(column)) for column in zip(*points, strict=True))
    timed = [i for i, row in enumerate(rows) if row.time_s_per_step is not None]
    time = None
    if timed:  # seconds are optional in a row
        seconds = [rows[i].time_s for i in timed]
        time = _fit_polynomial([points[i] for i in timed], bounds, seconds)
    joules = [row.energy_j for row in rows]
    return StageCost(energy=_fit_polynomial(points, bounds, joules), time=time)


def _fit_polynomial(
    points: Sequence[Point], bounds: tuple[tuple[int, int], ...], values: Sequence[float]
) -> Polynomial:
    y = np.array(values)
    powers = _powers(set(points))
    design = _monomials(points, bounds, powers)
    coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
    misses = y - design @ coefficients
    std = math.sqrt(misses @ misses / max(len(y) - len(powers), 1))
    return Polynomial(
        bounds=bounds, powers=powers, coefficients=tuple(coefficients.tolist()), std=std
    )


def _powers(points: Collection[Point]) -> tuple[Point, ...]:
    """All monomials up to a total degree that leaves a point to spare: 2, else 1, else 0.

    A width that was seen at k values can tell k powers apart, so higher ones are left out.
    """
    levels = [len(set(column)) for column in zip(*points, strict=True)]
    for degree in range(DEGREE, 0, -1):
        powers = [
            power
            for power in itertools.product(*(range(min(degree + 1, k)) for k in levels))
            if sum(power) <= degree
        ]
        if len(points) > len(powers):
            return tuple(powers)
    return ((0,) * len(levels),)


def _monomials(
    points: Sequence[Point], bounds: Sequence[tuple[int, int]], powers: Sequence[Point]
) -> Array:
    dimensions = len(bounds)
    low, high = np.array(bounds, dtype=float).reshape(dimensions, 2).T
    x = np.array(points, dtype=float).reshape(len(points), 1, dimensions)
    exponents = np.array(powers, dtype=int).reshape(1, len(powers), dimensions)
    result: Array = np.prod(((x - low) / np.maximum(high - low, 1)) ** exponents, 2)
    return result
