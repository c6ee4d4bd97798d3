"""Landscapes: what a layer of each kind costs over its widths, beside what is known of single ones.

No framework is needed: FLOPs and bytes at widths that were never profiled come from polynomials
through those that were (see polynomials.py). A kind for which these are too few is left out.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ampere.core.arrays import Array
from ampere.core.groups import grouped
from ampere.core.layers import Features, Layer, LayerKind
from ampere.core.program.widths import Widths
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Cost, usable
from ampere.estimators.baselines.polynomials import fit_features
from ampere.estimators.paper import PaperFit
from ampere.estimators.survey import SurveyFit
from ampere.profiles.profile import Profile
from ampere.records.measurement import Measurement

SIZES = {1: 33, 2: 13}  # of each width, where one varies or two do


@dataclass(frozen=True)
class Spot:
    """What is known of one layer: what subtraction left, or the fit's share of a network."""

    widths: Widths
    energy_j: float


@dataclass(frozen=True, eq=False)
class Landscape:
    """Joules of one layer of a kind, in a network as small as a variant, over one or two widths.

    The array has a dimension for each of the `axes`; all other widths are `fixed`, those that never
    varied, and those that would make a third dimension in the middle of their sizes. Spots are
    `inferred` if no subtraction told them, only the fit's opinion of how a network divides.
    """

    kind: LayerKind
    axes: Mapping[str, tuple[int, ...]]
    fixed: Widths
    energy_j: Array
    energy_j_std: Array
    spots: tuple[Spot, ...]
    inferred: bool

    @property
    def sliced(self) -> tuple[str, ...]:
        """Fixed widths of which there are spots at other sizes."""
        return tuple(
            name
            for name, size in self.fixed.items()
            if any(spot.widths[name] != size for spot in self.spots)
        )


def landscapes(profile: Profile) -> list[Landscape]:
    """A landscape of each kind that was profiled at several sizes of a width or more."""
    fit = profile.fit
    if isinstance(fit, SurveyFit):  # its kinds are those of chance
        return []
    by_kind = _known_layers(fit, usable(profile.measurements))
    spots = _subtracted(fit) if isinstance(fit, PaperFit) else _shares(fit, profile)
    drawn = []
    for name, layers in by_kind.items():
        varied = _varied(layers)
        if not varied:
            continue
        axes = _axes(varied)
        middle = {width: statistics.median_low(sizes) for width, sizes in varied.items()}
        base = {**layers[0].widths, **middle}
        grid = [
            replace(layers[0], widths=Widths({**base, **dict(zip(axes, at, strict=True))}))
            for at in itertools.product(*axes.values())
        ]
        costs = _costs(fit, layers, grid, list(varied))
        if costs is None:
            continue
        shape = [len(each) for each in axes.values()]
        drawn.append(
            Landscape(
                kind=layers[0].kind,
                axes=axes,
                fixed=Widths({width: size for width, size in base.items() if width not in axes}),
                energy_j=np.array([cost.energy_j for cost in costs]).reshape(shape),
                energy_j_std=np.array([cost.energy_j_std for cost in costs]).reshape(shape),
                spots=tuple(spots[name]),
                inferred=isinstance(fit, AdditiveFit),
            )
        )
    return drawn


def _known_layers(
    fit: AdditiveFit | PaperFit, rows: Sequence[Measurement]
) -> dict[str, list[Layer]]:
    """The layers that the fit knows of each kind, once each, in the order of the rows."""
    by_kind: dict[str, dict[Widths, Layer]] = defaultdict(dict)
    for layer in (layer for row in rows for layer in row.layers):
        if isinstance(fit, PaperFit):
            process = fit.processes.get(layer.kind.name)
            if process is None or process.is_outside(layer.widths):
                continue
        elif not fit.encoder.knows(layer):
            continue
        by_kind[layer.kind.name].setdefault(layer.widths, replace(layer, count=1))
    return {name: list(layers.values()) for name, layers in by_kind.items()}


def _varied(layers: Sequence[Layer]) -> dict[str, set[int]]:
    """The sizes of each width that has several."""
    if len({tuple(layer.widths) for layer in layers}) > 1:  # one kind, other widths: not our rows
        return {}
    seen = {name: {layer.widths[name] for layer in layers} for name in layers[0].widths}
    return {name: sizes for name, sizes in seen.items() if len(sizes) > 1}


def _axes(varied: Mapping[str, set[int]]) -> dict[str, tuple[int, ...]]:
    """Some sizes between the ends of a width, or of the two that go farthest."""
    reach = {name: max(sizes) - min(sizes) for name, sizes in varied.items()}
    farthest = sorted(reach, key=lambda name: -reach[name])[: max(SIZES)]
    count = SIZES[len(farthest)]
    return {
        name: tuple(
            np.unique(np.linspace(min(sizes), max(sizes), count).round().astype(int)).tolist()
        )
        for name, sizes in varied.items()
        if name in farthest
    }


def _costs(
    fit: AdditiveFit | PaperFit, layers: Sequence[Layer], grid: Sequence[Layer], varied: list[str]
) -> list[Cost] | None:
    if isinstance(fit, PaperFit):
        return [fit.cost(layer) for layer in grid]
    if fit.encoder.operation(layers[0]) not in fit.encoder.counted:
        return fit.alone(grid)
    polynomial = fit_features(
        _sizes(layers, varied),
        np.array([[value or 0.0 for value in each.features.numbers] for each in layers]),
    )
    if polynomial is None:
        return None
    features = polynomial.at(_sizes(grid, varied)).tolist()
    return fit.alone(
        [replace(at, features=Features(*f)) for at, f in zip(grid, features, strict=True)]
    )


def _sizes(layers: Sequence[Layer], widths: list[str]) -> Array:
    return np.array([[layer.widths[name] for name in widths] for layer in layers], float)


def _subtracted(fit: PaperFit) -> dict[str, list[Spot]]:
    """What subtraction left, kind by kind."""
    return {
        name: [
            Spot(Widths(dict(zip(process.names, point.widths, strict=True))), point.cost.energy_j)
            for point in process.points
        ]
        for name, process in fit.processes.items()
    }


def _shares(fit: AdditiveFit, profile: Profile) -> dict[str, list[Spot]]:
    """Each network's joules, divided among its layers as the fit would, kind by kind."""
    left_out = {id(rejection.row) for rejection in fit.rejected}
    spots: dict[str, list[Spot]] = defaultdict(list)
    for row in usable(profile.measurements):
        if id(row) in left_out:
            continue
        ratio = row.energy_j / fit.predict(row.layers).total.energy_j
        layers = grouped(row.layers, lambda layer: layer.identity)
        once = [replace(same[0], count=1) for same in layers]
        for layer, cost in zip(once, fit.alone(once), strict=True):
            spots[layer.kind.name].append(Spot(layer.widths, ratio * cost.energy_j))
    return spots
