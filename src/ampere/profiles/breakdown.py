"""Breakdown: where a model's joules go, layer by layer, and stage by stage where that is known."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ampere.core import units
from ampere.core.boundary.example_inputs import Input
from ampere.core.boundary.trust import ZOO
from ampere.core.groups import grouped
from ampere.core.layers import Layer, LayerIdentity, LayerKind
from ampere.errors import AmpereError, NotCovered
from ampere.estimators.base import Line, add_known, usable
from ampere.estimators.encoding.encoder import STEP
from ampere.estimators.intervals import interval
from ampere.frameworks.readers import Model
from ampere.profiles.estimate import Estimate
from ampere.profiles.profile import Profile
from ampere.records.measurement import STAGES, Measurement

PARTS = STAGES[1:]  # of a step: forward, backward, update
ITSELF = "the step itself"  # what a step costs whatever its layers are


@dataclass(frozen=True)
class Portion:
    """Layers that are the same: their joules a step, and which share of them each stage takes."""

    name: str
    kind: LayerKind
    energy_j: float
    energy_j_std: float
    time_s: float | None
    share: float
    stages: tuple[float, ...] = ()
    method: str = "additive"

    @property
    def energy_j_interval(self) -> tuple[float, float]:
        """The 90 % interval of the joules."""
        return interval(self.energy_j, self.energy_j_std, self.method)


@dataclass(frozen=True)
class Division:
    """A model's estimate as portions, in the order of its layers."""

    model: str
    estimate: Estimate
    portions: tuple[Portion, ...]
    stages: Mapping[str, tuple[float, ...]]  # of every kind whose stages were run alone


def divide(
    profile: Profile,
    model: Model | Sequence[Layer] | None = None,
    input: Input | None = None,
) -> Division:
    """Where the joules of a model go.

    By default it is the one that the profile was made for if that is of the zoo (a file that
    somebody sent must not run code of theirs), else the largest profiled network.

    Raises:
        NotCovered: The profile knows no layer of the model.
    """
    name, estimate = _subject(profile, model, input)
    stages = _stage_shares(profile.measurements)
    groups = grouped(estimate.lines, lambda line: line.layer.identity)
    portions = tuple(_portion(lines, estimate, stages) for lines in groups)
    return Division(model=name, estimate=estimate, portions=portions, stages=stages)


def _subject(
    profile: Profile, model: Model | Sequence[Layer] | None, input: Input | None
) -> tuple[str, Estimate]:
    if model is not None:
        name = model if isinstance(model, str) else "the given model"
        try:
            return name, profile.estimate(model, input)
        except NotCovered as error:
            raise NotCovered(f"{name}: {error}; name a model of its family") from None
    made_for = profile.header.model
    if isinstance(made_for, str) and made_for.startswith(ZOO):
        with suppress(AmpereError, ModuleNotFoundError):  # another zoo, or no torch
            return made_for, profile.estimate(made_for)
    largest = max(usable(profile.measurements), key=lambda row: row.energy_j)
    return "the largest profiled network", profile.estimate(largest.layers)


def _portion(
    lines: Sequence[Line], estimate: Estimate, stages: Mapping[str, tuple[float, ...]]
) -> Portion:
    layer, costs = lines[0].layer, [line.cost for line in lines]
    widths = "".join(f" {name}={width}" for name, width in layer.widths.items())
    name = units.times(layer.name, sum(line.layer.count for line in lines)) + widths
    energy_j = math.fsum(cost.energy_j for cost in costs)
    return Portion(
        name=ITSELF if layer.kind == STEP.kind else name,
        kind=layer.kind,
        energy_j=energy_j,
        energy_j_std=math.fsum(cost.energy_j_std for cost in costs),  # same layer, same error
        time_s=add_known(cost.time_s for cost in costs),
        share=energy_j / estimate.energy_j,
        stages=stages.get(layer.kind.name, ()),
        method=estimate.method,
    )


def _stage_shares(measurements: Sequence[Measurement]) -> dict[str, tuple[float, ...]]:
    """Shares of the stages of each kind, over those widths at which all of them were run alone."""
    alone: dict[LayerIdentity, dict[str, float]] = defaultdict(dict)
    for row in measurements:
        if row.failed is None and row.stage in PARTS and len(row.layers) == 1:
            alone[row.layers[0].identity][row.stage] = row.energy_j
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(PARTS))
    for (kind, *_), joules in alone.items():
        if len(joules) == len(PARTS):
            sums[kind] = [old + joules[part] for old, part in zip(sums[kind], PARTS, strict=True)]
    return {kind: tuple(each / sum(three) for each in three) for kind, three in sums.items()}
