"""A family at every size: each of its layers at all levels of the widths that it meets.

The free choices of a network (see core/choices.py) are the axes; a level is a size in steps. FLOPs
and bytes at all levels come from polynomials through a few that are counted.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.core.choices import Choice
from ampere.core.layers import Features, Layer
from ampere.core.program.widths import Widths
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.baselines.polynomials import SAMPLES, fit_features
from ampere.estimators.encoding.encoder import unmeasured_ids
from ampere.estimators.encoding.places import BYTES, log_bytes, stairs
from ampere.estimators.processes import linear_mean
from ampere.profiles.lookup import Axes

Count = Callable[[Layer], Layer]  # fills in a layer's features
LARGEST = 4_000_000  # entries of a table
FEW = 400  # sizes of a layer that are counted one by one, where they follow no polynomial


@dataclass(frozen=True)
class Place:
    """A layer of the family: how often it occurs, and which widths follow which choice."""

    layer: Layer
    count: int
    follows: Mapping[str, tuple[int, Fraction]]  # width: (free choice, ratio)

    @property
    def axes(self) -> Axes:
        """The choices that its widths follow."""
        return tuple(sorted({axis for axis, _ in self.follows.values()}))


def places_of(layers: Sequence[Layer], free: Sequence[Choice]) -> list[Place]:
    """The layers that differ, with how often each occurs."""
    follows: dict[int, dict[str, tuple[int, Fraction]]] = defaultdict(dict)
    for axis, choice in enumerate(free):
        for (number, width), ratio in zip(choice.places, choice.ratios, strict=True):
            follows[number][width] = (axis, ratio)
    places: dict[object, Place] = {}
    for number, layer in enumerate(layers):
        fixed = {name: size for name, size in layer.widths.items() if name not in follows[number]}
        key = (
            layer.kind.name,
            tuple(sorted(follows[number].items())),
            tuple(sorted(fixed.items())),
        )
        same = places.get(key) or Place(layer, 0, dict(follows[number]))
        places[key] = replace(same, count=same.count + layer.count)
    return list(places.values())


class Grid:
    """The layers of a family at every size, as arrays for the processes."""

    def __init__(
        self,
        places: Sequence[Place],
        largest: Sequence[int],
        steps: Sequence[int],
        fit: AdditiveFit,
        count: Count,
    ) -> None:
        self.places, self.steps, self.encoder = places, steps, fit.encoder
        self._measured = fit.layers
        self.sizes = [top // step + 1 for top, step in zip(largest, steps, strict=True)]
        # FLOPs and bytes of each place at every entry of its table, (entries, 3).
        self.features = [self._count(place, count) for place in places]

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Of a table over these axes; level 0 is there so that levels are indices."""
        return tuple(self.sizes[axis] for axis in axes)

    def levels(self, axes: Axes) -> list[Ints]:
        """Of each axis at every entry of a flat table; level 0 counts as 1."""
        return [np.maximum(values.ravel(), 1) for values in np.indices(self.shape(axes))]

    def widths(self, place: Place) -> dict[str, Ints]:
        """The layer's widths at every entry of its table."""
        levels = dict(zip(place.axes, self.levels(place.axes), strict=True))
        n = math.prod(self.shape(place.axes))
        return {
            name: self.size(*place.follows[name], levels)
            if name in place.follows
            else np.full(n, width)
            for name, width in place.layer.widths.items()
        }

    def size(self, axis: int, ratio: Fraction, levels: Mapping[int, Ints]) -> Ints:
        """A width that follows an axis, at these levels of it."""
        return np.asarray(levels[axis] * self.steps[axis] * ratio.numerator // ratio.denominator)

    def layers(self, number: int) -> linear_mean.Layers:
        """A layer at every entry of its table."""
        place, features = self.places[number], self.features[number]
        widths = self.widths(place)
        n = len(features)
        one = self.encoder.encode([place.layer])
        x = np.repeat(one.x, n, axis=0)
        for name, sizes in widths.items():
            if name in self.encoder.coordinates:
                x[:, self.encoder.coordinates.index(name)] = np.log2(sizes)
        ids = unmeasured_ids(place.layer, widths, n)  # unless it is found below
        for layer in self._measured:
            if layer.kind == place.layer.kind and set(layer.widths) == set(widths):
                same = np.ones(n, bool)
                for name, sizes in widths.items():
                    same &= sizes == layer.widths[name]
                ids[same] = self.encoder.encode([replace(layer, kind=place.layer.kind)]).id[0]
        if BYTES in self.encoder.coordinates and not one.unsized[0]:
            x[:, self.encoder.coordinates.index(BYTES)] = log_bytes(features[:, 1:].sum(1))
        sizes = np.array(list(widths.values()), int).reshape(len(widths), n).T
        return linear_mean.Layers(
            features=self.encoder.columns(place.layer, features, sizes),
            x=x,
            op=np.repeat(one.op, n),
            kind=np.repeat(one.kind, n),
            id=ids,
            stairs=stairs(sizes),
            traits=np.repeat(one.traits, n, axis=0),
            novel=np.repeat(one.novel, n),
            unsized=np.repeat(one.unsized, n),
            lent=np.repeat(one.lent, n, axis=0),
        )

    def layers_at(self, levels: Ints) -> Iterator[Layer]:
        """The layers of one candidate."""
        for place, features in zip(self.places, self.features, strict=True):
            own = levels[list(place.axes)]
            index = int(np.ravel_multi_index(tuple(own), self.shape(place.axes))) if own.size else 0
            yield replace(
                place.layer,
                widths=self._widths_at(place, own),
                features=Features(*map(float, features[index])),
                count=place.count,
            )

    def _count(self, place: Place, count: Count) -> Array:
        """FLOPs and bytes at every entry, (entries, 3)."""
        shape = self.shape(place.axes)
        if math.prod(shape) > LARGEST:
            raise DataError(
                f"{place.layer.name} has too many sizes for a table: estimate candidates one by one"
            )

        def counted(entries: Ints) -> Array:
            widths = [self._widths_at(place, row) for row in entries]
            features = [count(replace(place.layer, widths=each)).features for each in widths]
            return np.array([each.numbers for each in features], float)

        if not place.axes:
            return counted(np.zeros((1, 0), int))
        # As functions of the levels: widths that are tied to each other add nothing.
        entries = np.column_stack(self.levels(place.axes))
        several = [np.linspace(1, size - 1, SAMPLES).round().astype(int) for size in shape]
        samples = np.array(sorted(set(itertools.product(*several))))
        free = np.array(shape) > 2  # an axis of one level has no slope
        polynomial = fit_features(samples[:, free].astype(float), counted(samples))
        if polynomial is not None:
            return polynomial.at(entries[:, free].astype(float))
        distinct, index = np.unique(entries, axis=0, return_inverse=True)
        if len(distinct) > FEW:
            raise DataError(
                f"the FLOPs of {place.layer.name} follow no polynomial of its widths: estimate its"
                " candidates one by one"
            )
        return np.asarray(counted(distinct)[index.ravel()])

    def _widths_at(self, place: Place, levels: Ints) -> Widths:
        at = dict(zip(place.axes, levels, strict=True))
        return Widths(
            {
                name: int(self.size(*place.follows[name], at)) if name in place.follows else width
                for name, width in place.layer.widths.items()
            }
        )
