"""Fitting: what any method learns from measurements, and what it then says of a network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ampere.core.layers import Features, Layer
from ampere.core.types import Json
from ampere.core.widths import Widths
from ampere.errors import NotCovered
from ampere.records.measurement import Measurement


@dataclass(frozen=True)
class Cost:
    """Joules and seconds per step, with standard deviations."""

    energy_j: float
    energy_j_std: float
    time_s: float = math.nan
    time_s_std: float = math.nan

    def times(self, factor: float) -> Cost:
        """The same thing several times, with the same error each time."""
        return Cost(*(factor * value for value in vars(self).values()))


@dataclass(frozen=True)
class Line:
    """One layer's share of a network.

    It is extrapolated if its widths lie outside those that were measured, and borrowed if no layer
    of its kind was: then it is what other kinds suggest.
    """

    layer: Layer
    cost: Cost
    extrapolated: bool = False
    borrowed: bool = False

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "name": self.layer.name,
            "kind": self.layer.kind.name,
            "role": self.layer.kind.role.value,
            "widths": dict(self.layer.widths),
            "count": self.layer.count,
            "energy_j": self.cost.energy_j,
            "energy_j_std": self.cost.energy_j_std,
            "time_s": _finite(self.cost.time_s),
            "time_s_std": _finite(self.cost.time_s_std),
            "extrapolated": self.extrapolated,
            "borrowed": self.borrowed,
        }


@dataclass(frozen=True)
class Prediction:
    """A line per layer, and the total with the error of one more measurement in it."""

    lines: tuple[Line, ...]
    total: Cost
    uncovered: tuple[Layer, ...] = ()


class Fit(Protocol):
    """What any method learns from measurements: the cost of a network."""

    @property
    def method(self) -> str:
        """Its name, as it stands in tables."""
        ...

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """Joules and seconds of one step; layers that it knows nothing of are uncovered."""
        ...


class Layerwise(ABC):
    """A fit that knows the cost of each layer by itself, and adds them up (paper, eq. 4)."""

    noise: float = 0.0  # relative error of one more measurement of a whole network

    @abstractmethod
    def cost(self, layer: Layer) -> Cost:
        """Joules and seconds of one layer; a kind that is not known raises NotCovered."""

    def is_extrapolated(self, layer: Layer) -> bool:
        """Whether the layer's widths lie outside what was measured."""
        return False

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """The sum of the layers' costs.

        Layers of one kind at the same widths share one error, so it grows with their number; layers
        of different kinds are taken as independent.
        """
        lines: list[Line] = []
        uncovered: list[Layer] = []
        known: dict[tuple[str, Widths, Features], Cost] = {}
        shared: dict[tuple[str, Widths, Features], tuple[float, float]] = {}
        for layer in layers:
            key = (layer.kind.name, layer.widths, layer.features)
            try:
                cost = known.get(key) or known.setdefault(key, self.cost(layer))
            except NotCovered:
                uncovered.append(layer)
                continue
            cost = cost if layer.count == 1 else cost.times(layer.count)
            lines.append(Line(layer, cost, self.is_extrapolated(layer)))
            joules, seconds = shared.get(key, (0.0, 0.0))
            shared[key] = (joules + cost.energy_j_std, seconds + cost.time_s_std)
        nothing = 0.0 if lines else math.nan  # a sum over no layer is not 0 J
        energy = math.fsum(line.cost.energy_j for line in lines) + nothing
        time = math.fsum(line.cost.time_s for line in lines) + nothing
        energy_var = math.fsum(j**2 for j, _ in shared.values()) + (self.noise * energy) ** 2
        time_var = math.fsum(s**2 for _, s in shared.values()) + (self.noise * time) ** 2
        total = Cost(energy, math.sqrt(energy_var), time, math.sqrt(time_var))
        return Prediction(tuple(lines), total, tuple(uncovered))


@dataclass(frozen=True)
class Rejection:
    """A row that a fit leaves out, and why."""

    row: Measurement = field(repr=False)
    reason: str


def usable(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Whole training steps that did not fail."""
    return [m for m in measurements if m.failed is None and m.stage == "step"]


def typical_error(rows: Sequence[Measurement]) -> float:
    """The relative standard error that the bursts of a measurement typically have."""
    return float(np.median([row.error for row in rows])) if rows else 0.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
