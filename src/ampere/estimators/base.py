"""What any method learns from measurements, and what it then says of a network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ampere.core.layers import Features, Layer
from ampere.core.program.widths import Widths
from ampere.core.types import Json
from ampere.errors import NotCovered
from ampere.records.measurement import Measurement


@dataclass(frozen=True)
class Cost:
    """Joules and seconds per step, with standard deviations; seconds are None if unknown."""

    energy_j: float
    energy_j_std: float
    time_s: float | None = None
    time_s_std: float | None = None

    def times(self, factor: float) -> Cost:
        """The same thing several times, with the same error each time."""
        if self.time_s is None or self.time_s_std is None:
            return Cost(factor * self.energy_j, factor * self.energy_j_std)
        return Cost(
            energy_j=factor * self.energy_j,
            energy_j_std=factor * self.energy_j_std,
            time_s=factor * self.time_s,
            time_s_std=factor * self.time_s_std,
        )


@dataclass(frozen=True)
class Line:
    """One layer's share of a network.

    It is extrapolated if its widths or attributes lie outside those that were measured, and
    borrowed if no layer of its kind was: then it is what other kinds suggest. It is unsettled if
    rows tell what the network costs, and hardly what the layer has of that.
    """

    layer: Layer
    cost: Cost
    extrapolated: bool = False
    borrowed: bool = False
    unsettled: bool = False

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
            "time_s": self.cost.time_s,
            "time_s_std": self.cost.time_s_std,
            "extrapolated": self.extrapolated,
            "borrowed": self.borrowed,
            "unsettled": self.unsettled,
        }


@dataclass(frozen=True)
class Share:
    """What all calls of one operation cost in a network.

    `extrapolated` and `borrowed` say how much of that lies beyond the sizes that were measured, and
    how much is of calls that nobody ever measured.
    """

    operation: str
    cost: Cost
    extrapolated: float = 0.0
    borrowed: float = 0.0

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "operation": self.operation,
            "energy_j": self.cost.energy_j,
            "energy_j_std": self.cost.energy_j_std,
            "time_s": self.cost.time_s,
            "time_s_std": self.cost.time_s_std,
            "extrapolated": self.extrapolated,
            "borrowed": self.borrowed,
        }


@dataclass(frozen=True)
class Prediction:
    """A line per layer, and the total with the error of one more measurement in it.

    `mean_j_std` is the deviation without that error: of the mean over many steps. `doubts` are what
    a reader should know of this network. `open_j` is the deviation of each line, or of the line and
    a step's own cost together, if that is less: no network tells its last layer from a step. It is
    empty where lines are taken as independent. `shares` are what operations cost, if it is known.
    `lent` is which share of what is said comes from each other device.
    """

    lines: tuple[Line, ...]
    total: Cost
    uncovered: tuple[Layer, ...] = ()
    mean_j_std: float | None = None
    doubts: tuple[str, ...] = ()
    open_j: tuple[float, ...] = ()
    shares: tuple[Share, ...] = ()
    lent: Mapping[str, float] = field(default_factory=dict)


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
        costs: dict[tuple[str, Widths, Features], Cost] = {}
        joint: dict[tuple[str, Widths, Features], list[Cost]] = defaultdict(list)
        for layer in layers:
            key = (layer.kind.name, layer.widths, layer.features)
            try:
                cost = costs.get(key) or costs.setdefault(key, self.cost(layer))
            except NotCovered:
                uncovered.append(layer)
                continue
            cost = cost if layer.count == 1 else cost.times(layer.count)
            lines.append(Line(layer, cost, self.is_extrapolated(layer)))
            joint[key].append(cost)
        if not lines:  # a sum over no layer is not 0 J
            return Prediction((), Cost(math.nan, math.nan), tuple(uncovered))
        energy = math.fsum(line.cost.energy_j for line in lines)
        stds = [sum(cost.energy_j_std for cost in costs) for costs in joint.values()]
        total = Cost(energy, self._total_std(energy, stds))
        time = add_known(line.cost.time_s for line in lines)
        time_stds = [add_known(cost.time_s_std for cost in costs) for costs in joint.values()]
        if time is not None:
            std = self._total_std(time, [each or 0.0 for each in time_stds])
            total = replace(total, time_s=time, time_s_std=std)
        return Prediction(tuple(lines), total, tuple(uncovered))

    def _total_std(self, total: float, stds: Sequence[float]) -> float:
        """Of a sum whose parts are independent, measured once more."""
        return math.sqrt(math.fsum(std**2 for std in stds) + (self.noise * total) ** 2)


@dataclass(frozen=True)
class Rejection:
    """A row that a fit leaves out, or only the seconds of it, and why."""

    row: Measurement = field(repr=False)
    reason: str
    seconds_only: bool = False


def add_known(values: Iterable[float | None]) -> float | None:
    """The sum of some numbers; None if one of them is not known."""
    every = list(values)
    known = [value for value in every if value is not None]
    return math.fsum(known) if len(known) == len(every) else None


def usable(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Whole training steps that did not fail."""
    return [m for m in measurements if m.failed is None and m.stage == "step"]


def typical_error(rows: Sequence[Measurement]) -> float:
    """The relative standard error that the bursts of a measurement typically have."""
    return float(np.median([row.error for row in rows])) if rows else 0.0
