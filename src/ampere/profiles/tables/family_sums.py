"""Sums over the layers of a family's members: means and variances, looked up for many at once.

The variance of the logarithm of a sum is that of its layers' logarithms, weighed by their shares:
products of one-dimensional covariances between layers, less what measuring has taken from it, which
is made of whitened covariances with the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.encoding.encoder import STEP
from ampere.estimators.encoding.places import BYTES
from ampere.estimators.processes import linear_mean, sum_process
from ampere.estimators.processes.covariance import (
    LEVEL,
    ROOT,
    Hyper,
    covariance,
    matern52,
    scaled_distance,
    variance,
)
from ampere.estimators.processes.totals import Context
from ampere.profiles.lookup import Axes, Table, add_up, in_chunks, join
from ampere.profiles.tables.grid import Grid, Place
from ampere.profiles.tables.relaxation import Surface, relax


class Sums:
    """Means and standard deviations of joules, or of seconds, of every member of a family.

    `encode` makes of a place's layers what the process takes.
    """

    def __init__(
        self,
        process: sum_process.SumProcess,
        grid: Grid,
        depth: float,
        encode: Callable[[linear_mean.Layers], linear_mean.Layers],
    ) -> None:
        self.process, self.grid, self.depth = process, grid, depth
        step = ((), 1, encode(grid.encoder.encode([STEP])))
        places = enumerate(grid.places)
        self._layers = [
            *((place.axes, place.count, encode(grid.layers(number))) for number, place in places),
            step,
        ]
        self._means = join(self._cost_tables, np.add)

    @cached_property
    def _dearer(self) -> float:
        return math.exp(self.process.dearer(self.depth)[0])

    @cached_property
    def _cost_tables(self) -> list[Table]:
        """What each layer costs in all its places, without what depth adds; the step is last."""
        return [
            Table(axes, (count * self.process.costs(layers)).reshape(self.grid.shape(axes)))
            for axes, count, layers in self._layers
        ]

    def means(self, levels: Ints) -> Array:
        """Of each candidate, given by its levels (m, k)."""
        return in_chunks(levels, lambda chunk: self._dearer * add_up(self._means, chunk))

    def relaxed(self, levels: Array, tops: Sequence[int]) -> Surface:
        """Means between levels, and what a level more of each axis adds there."""
        values, slopes = relax(self._means, levels, tops)
        return Surface(self._dearer * values, self._dearer * slopes)

    def variances(self, levels: Ints) -> Array:
        """Of the logarithm of each candidate, without noise."""
        return in_chunks(levels, self._var)

    def stds(self, levels: Ints) -> Array:
        """Standard deviations, with the noise of one more measurement."""
        means = self.means(levels)
        var = self.variances(levels) + self.process.noise_var(means)
        return np.asarray(self.process.widening * np.sqrt(var) * means)

    def share_stds(self, levels: Ints, whole: Ints, noisy: bool) -> Array:
        """Of the logarithm of each candidate's share in the whole, side by side.

        The variance of a difference, in which what both have in common is taken out; with the noise
        of metering both once more, if wanted.
        """
        var = in_chunks(levels, _Apart(self, whole).var)
        if noisy:
            noise = self.process.noise_var(np.append(self.means(levels), self.means(whole[None])))
            noise = noise - self.process.drift_var
            var = var + noise[:-1] + noise[-1]
        return np.asarray(self.process.widening * np.sqrt(var))

    def _var(self, levels: Ints) -> Array:
        cross, directions, _ = self._variance_tables
        total = add_up(self._means, levels)
        taken = add_up(cross, levels) / total[:, None] + self._walk
        doubts = add_up(directions, levels)
        var = self._prior(levels) + np.einsum("ij,ij->i", doubts, doubts)
        var = var / total**2 + self.process.hyper.depth**2 * self.depth
        return np.asarray(np.maximum(var - np.einsum("ij,ij->i", taken, taken), 0.0))

    def _prior(self, levels: Ints) -> Array:
        """Variance of a sum by K alone, before anything was measured."""
        var = np.broadcast_to(add_up(self._variance_tables[2], levels), len(levels)).copy()
        for pair in self._pairs:
            var += pair.at(levels)
        return var

    @cached_property
    def _walk(self) -> Array:
        context = Context.at(np.array([self.depth]))
        return self.process.factor.whiten(self.process.beside(context)[0])

    @cached_property
    def _variance_tables(self) -> tuple[list[Table], list[Table], list[Table]]:
        """Of what adds up over layers: whitened covariances, doubts, and own variances."""
        posteriors = [(*each, self.process.posterior(each[2])) for each in self._layers]
        used = np.any([after.directions.any(0) for *_, after in posteriors], axis=0)
        rows = []
        for axes, count, layers, after in posteriors:
            cost, shape = count * after.cost, self.grid.shape(axes)
            own = np.square(cost) * variance(layers, self.process.hyper)
            rows.append(
                (
                    Table(axes, (cost * after.cross).T.reshape(*shape, -1)),
                    Table(axes, (cost[:, None] * after.directions[:, used]).reshape(*shape, -1)),
                    Table(axes, own.reshape(shape)),
                )
            )
        cross, directions, squares = zip(*rows, strict=True)
        merged = [join(tables, np.add) for tables in (cross, directions, squares)]
        return merged[0], merged[1], merged[2]

    @cached_property
    def _pairs(self) -> list[Pair]:
        """Covariances between two layers of one operation."""
        grid, hyper = self.grid, self.process.hyper
        weights = [
            (place, grid.encoder.encode([place.layer]), table)
            for place, table in zip(grid.places, self._cost_tables, strict=False)  # but the step
        ]
        return [
            _pair(grid, hyper, a, b)
            for a, b in itertools.combinations(weights, 2)
            if a[1].op[0] == b[1].op[0]
        ]


class _Apart:
    """How far candidates of a family are off from one of them, the whole."""

    def __init__(self, sums: Sums, whole: Ints) -> None:
        self.sums, process = sums, sums.process
        self.total = add_up(sums._means, whole[None])[0]
        cross, directions, _ = sums._variance_tables
        self.taken = add_up(cross, whole[None])[0] / self.total
        self.doubts = add_up(directions, whole[None])[0] / self.total
        self.var_whole = float(sums._prior(whole[None])[0]) / self.total**2
        at = [_entry(sums.grid, axes, whole) for axes, _, _ in sums._layers]
        ours = [
            layers[index : index + 1] for (*_, layers), index in zip(sums._layers, at, strict=True)
        ]
        costs = [
            table.at(whole[None]).item() if table.axes else float(table.values)
            for table in sums._cost_tables
        ]
        tables = []
        for (axes, _, layers), cost in zip(sums._layers, sums._cost_tables, strict=True):
            alike = sum(
                weight * covariance(layers, one, process.hyper)[:, 0]
                for one, weight in zip(ours, costs, strict=True)
            )
            tables.append(Table(axes, cost.values * np.reshape(alike, sums.grid.shape(axes))))
        self.common = join(tables, np.add)

    def var(self, levels: Ints) -> Array:
        """Of the difference of logarithms."""
        sums = self.sums
        cross, directions, _ = sums._variance_tables
        total = add_up(sums._means, levels)
        taken = add_up(cross, levels) / total[:, None] - self.taken
        doubts = add_up(directions, levels) / total[:, None] - self.doubts
        var = sums._prior(levels) / total**2 + self.var_whole
        var -= 2 * add_up(self.common, levels) / (total * self.total)
        var += np.einsum("ij,ij->i", doubts, doubts) - np.einsum("ij,ij->i", taken, taken)
        return np.asarray(np.maximum(var, 0.0))


def _entry(grid: Grid, axes: Axes, levels: Ints) -> int:
    """The place of one candidate in a flat table."""
    own = tuple(levels[list(axes)])
    return int(np.ravel_multi_index(own, grid.shape(axes))) if own else 0


@dataclass(frozen=True)
class Pair:
    """Twice the covariance of two layers: their costs times covariances of their logarithms."""

    weights: tuple[Table, Table]
    bytes: tuple[Table, Table]  # a coordinate that follows several axes, in units of its length
    reach: float
    terms: tuple[_Term, ...]

    def at(self, levels: Ints) -> Array:
        """Of each candidate."""
        a, b = (weight.at(levels) for weight in self.weights)
        one, other = (place.at(levels) for place in self.bytes)
        r = scaled_distance(np.abs(one - other), 1.0)
        far = {"smooth": matern52(r), "near": np.exp(-r / (ROOT * self.reach)), "same": r == 0}
        total: Array | float = 0.0
        for term in self.terms:
            product: Array | float = term.factor * (far[term.shape] if term.shape else 1.0)
            for table in term.tables:
                product = product * table.at(levels)
            total = total + product
        return np.asarray(2 * total * a * b)


class _Term(NamedTuple):
    """A factor times tables, and times what the distance in bytes makes of a shape."""

    factor: float
    shape: str
    tables: tuple[Table, ...]


_Weighed = tuple[Place, linear_mean.Layers, Table]


def _pair(grid: Grid, hyper: Hyper, a: _Weighed, b: _Weighed) -> Pair:
    (one, one_x, one_cost), (two, two_x, two_cost) = a, b
    smooth, near, equal = [], [], []
    for i, name in enumerate(grid.encoder.coordinates):
        if name == BYTES:
            continue
        ours, theirs = (_coordinate(grid, *each, i, name) for each in ((one, one_x), (two, two_x)))
        axes, distance = _distance(ours, theirs)
        r = scaled_distance(distance, hyper.lengths[i])
        smooth.append(Table(axes, matern52(r)))
        near.append(Table(axes, np.exp(-r / (ROOT * hyper.reach))))
        equal.append(Table(axes, (distance == 0).astype(float)))
    same_kind, same = one_x.kind[0] == two_x.kind[0], one.layer.kind.name == two.layer.kind.name
    share = hyper.operation**2 + (hyper.kind**2 if same_kind else 0.0)
    terms = [(share, "smooth", smooth), (hyper.short**2, "near", near)]
    if same_kind and one_x.unsized[0] and two_x.unsized[0]:
        terms.append((LEVEL**2, "", []))
    if same and one.layer.kind.attributes == two.layer.kind.attributes:
        terms.append((hyper.rough**2, "same", equal))
    return Pair(
        weights=(one_cost, two_cost),
        bytes=(_bytes(grid, one, hyper), _bytes(grid, two, hyper)),
        reach=hyper.reach,
        terms=tuple(
            _Term(factor, shape, tuple(join(tables, np.multiply)))
            for factor, shape, tables in terms
        ),
    )


def _bytes(grid: Grid, place: Place, hyper: Hyper) -> Table:
    """The coordinate of bytes of a layer at every entry of its table, in units of its length."""
    if BYTES not in grid.encoder.coordinates:
        return Table((), np.zeros(()))
    i = grid.encoder.coordinates.index(BYTES)
    x = grid.layers(grid.places.index(place)).x[:, i] / hyper.lengths[i]
    return Table(place.axes, x.reshape(grid.shape(place.axes)))


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
