"""Sums over the layers of a family's members: means and variances, looked up for many at once.

The prior variance of a sum is made of products of one-dimensional covariances between its layers;
what measuring has taken from it, of whitened covariances with the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.base import inflation
from ampere.estimators.encoding import STEP
from ampere.estimators.processes import linear_mean, sum_process
from ampere.estimators.processes.covariance import Hyper, matern52, scaled_distance
from ampere.profiles.grid import Grid, Place
from ampere.profiles.lookup import Axes, Table, add_up, in_chunks, join


class Sums:
    """Means and standard deviations of joules, or of seconds, of every member of a family."""

    def __init__(self, process: sum_process.SumProcess, grid: Grid, context: float) -> None:
        self.process, self.grid, self.context = process, grid, context
        self._means = join(self._mean_tables(), np.add)

    def _posteriors(self) -> Iterator[tuple[Place, sum_process.Posterior]]:
        for number, place in enumerate(self.grid.places):
            yield place, self.process.posterior(self.grid.layers(number))

    @cached_property
    def _dearer(self) -> float:
        return self.process.dearer(self.context)[0]

    def _mean_tables(self) -> Iterator[Table]:
        for number, place in enumerate(self.grid.places):
            m, mean = self.process.means(self.grid.layers(number))
            values = place.count * (mean + self._dearer * m)
            yield Table(place.axes, values.reshape(self.grid.shape(place.axes)))
        m, mean = self.process.means(self.grid.encoder.encode([STEP]))
        yield Table((), mean[0] + self._dearer * m[0])

    def means(self, levels: Ints) -> Array:
        """Of each candidate, given by its levels (m, k)."""
        return in_chunks(levels, lambda chunk: add_up(self._means, chunk))

    def stds(self, levels: Ints) -> Array:
        """The same, with the noise of one more measurement."""
        return in_chunks(levels, self._std)

    def _std(self, levels: Ints) -> Array:
        cross, parts, size, squares = self._variance_tables
        taken = add_up(cross, levels)
        weighed = add_up(parts, levels)
        total = add_up(size, levels)
        walk = self.process.hyper.context**2 * self.context
        var = add_up(squares, levels) + walk * total**2
        var += np.einsum("ij,ij->i", weighed, weighed)
        for pair in self._pairs:
            var += pair.at(levels)
        var -= np.einsum("ij,ij->i", taken, taken)
        mean = add_up(self._means, levels)
        noisy = np.maximum(var, 0.0) + self.process.noise_var(mean)
        return np.asarray(inflation(len(self.process.rows)) * np.sqrt(noisy))

    @cached_property
    def _variance_tables(self) -> tuple[list[Table], list[Table], list[Table], list[Table]]:
        """Of what adds up over layers: whitened covariances, parts, m, and own variances."""
        hyper = self.process.hyper
        own = hyper.operation**2 + hyper.kind**2 + hyper.rough**2
        walk = self.process.factor.whiten(self.process.walk(np.array([self.context]))[0])
        rows = []
        step = self.process.posterior(self.grid.encoder.encode([STEP]))
        posteriors = [*((p.axes, p.count, after) for p, after in self._posteriors()), ((), 1, step)]
        used = np.flatnonzero(np.any([after.parts.any(0) for _, _, after in posteriors], axis=0))
        for axes, count, after in posteriors:
            cross = after.cross + np.outer(walk, after.m)
            shape = self.grid.shape(axes)
            rows.append(
                (
                    Table(axes, (count * cross.T).reshape(*shape, -1)),
                    Table(axes, (count * after.parts[:, used]).reshape(*shape, -1)),
                    Table(axes, (count * after.m).reshape(shape)),
                    Table(axes, (own * np.square(count * after.m)).reshape(shape)),
                )
            )
        cross_, parts_, size_, squares_ = zip(*rows, strict=True)
        merged = [join(tables, np.add) for tables in (cross_, parts_, size_, squares_)]
        return merged[0], merged[1], merged[2], merged[3]

    @cached_property
    def _pairs(self) -> list[Pair]:
        """Covariances between two layers of one operation."""
        grid, hyper = self.grid, self.process.hyper
        weights = []
        for number, place in enumerate(grid.places):
            m = linear_mean.expand(grid.layers(number), self.process.beta).sum(1)
            table = Table(place.axes, place.count * m.reshape(grid.shape(place.axes)))
            weights.append((place, grid.encoder.encode([place.layer]), table))
        return [
            _pair(grid, hyper, a, b)
            for a, b in itertools.combinations(weights, 2)
            if a[1].op[0] == b[1].op[0] >= 0
        ]


@dataclass(frozen=True)
class Pair:
    """Twice the covariance of two layers: their weights times a covariance for each coordinate."""

    weights: tuple[Table, Table]
    factors: tuple[Table, ...]
    share: float
    rough: float  # on top, where both are the same layer at the same widths
    same: tuple[Table, ...]

    def at(self, levels: Ints) -> Array:
        """Of each candidate."""
        shape: Array | float = self.share
        for factor in self.factors:
            shape = shape * factor.at(levels)
        if self.rough:
            equal: Array | float = self.rough
            for table in self.same:
                equal = equal * table.at(levels)
            shape = shape + equal
        a, b = self.weights
        return np.asarray(2 * shape * a.at(levels) * b.at(levels))


_Weighed = tuple[Place, linear_mean.Layers, Table]


def _pair(grid: Grid, hyper: Hyper, a: _Weighed, b: _Weighed) -> Pair:
    (one, one_x, one_m), (two, two_x, two_m) = a, b
    factors, equal = [], []
    for i, name in enumerate(grid.encoder.coordinates):
        ours, theirs = (_coordinate(grid, *each, i, name) for each in ((one, one_x), (two, two_x)))
        axes, distance = _distance(ours, theirs)
        factors.append(Table(axes, matern52(scaled_distance(distance, hyper.lengths[i]))))
        equal.append(Table(axes, (distance == 0).astype(float)))
    same_kind = one.layer.kind.name == two.layer.kind.name
    measured = one_x.kind[0] >= 0
    share = hyper.operation**2 + (hyper.kind**2 if same_kind and measured else 0.0)
    twins = same_kind and one.layer.kind.attributes == two.layer.kind.attributes
    return Pair(
        weights=(one_m, two_m),
        factors=tuple(join(factors, np.multiply)),
        share=share,
        rough=hyper.rough**2 if twins else 0.0,
        same=tuple(join(equal, np.multiply)) if twins else (),
    )


def _coordinate(grid: Grid, place: Place, encoded: linear_mean.Layers, i: int, name: str) -> Table:
    """One coordinate of a layer at every level of the choice that it follows, if any."""
    if name not in place.follows:
        return Table((), np.array(encoded.x[0, i]))
    axis, ratio = place.follows[name]
    (levels,) = grid.levels((axis,))
    return Table((axis,), np.log2(grid.size(axis, ratio, {axis: levels})))


def _distance(ours: Table, theirs: Table) -> tuple[Axes, Array]:
    axes = tuple(sorted({*ours.axes, *theirs.axes}))
    return axes, np.abs(ours.spread(axes) - theirs.spread(axes))
