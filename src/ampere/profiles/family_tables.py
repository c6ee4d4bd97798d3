"""Tabulating: what every member of a family costs, for search over millions of candidates.

A network of a fixed structure is a sum over layers, each a function of the one to three widths that
it meets. So its costs are computed once for every size of these, and a candidate is a few look-ups:

    joules(c1, c2, c3)  =  constant + table(c1, c2) + table(c2, c3)

The variance of the sum is looked up too: its prior from products of one-dimensional covariances
between the layers, what measuring has taken from it from whitened covariances with the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.core.choices import Choice, choices
from ampere.core.layers import Layer
from ampere.errors import DataError, NotCovered
from ampere.estimators import gp, linear_mean, sum_process
from ampere.estimators.additive import AdditiveFit, inflation
from ampere.estimators.encoding import STEP, depth_context
from ampere.profiles.grid import Count, Grid, Place, places_of
from ampere.profiles.lookup import Axes, Table, add_up, in_chunks, join

MATERN = gp.KERNELS["matern52"]


class FamilyTables:
    """What every member of a family costs, at any of its widths up to the original ones.

    `names` are the free widths, named by the layer where they first appear (`conv1.out`); widths
    that are tied to them follow. Candidates are rows of sizes in this order, multiples of
    `round_to` where the original is one.
    """

    def __init__(
        self, layers: Sequence[Layer], fit: AdditiveFit, count: Count, round_to: int = 1
    ) -> None:
        self._fit = fit
        unknown = [layer.name for layer in map(count, layers) if not fit.encoder.covers(layer)]
        if unknown:
            raise NotCovered(f"the profile does not cover {', '.join(unknown)}: no tables of it")
        free = [choice for choice in choices(layers) if not choice.fixed]
        if not free:
            raise DataError("no width of this model is free to choose: use `estimate`")
        self.names = tuple(_name(layers, choice) for choice in free)
        self.steps = tuple(_step(choice, round_to) for choice in free)
        self.largest = tuple(
            choice.size // step * step for choice, step in zip(free, self.steps, strict=True)
        )
        self._context = depth_context(layers)
        self._grid = Grid(places_of(layers, free), self.largest, self.steps, fit, count)

    @cached_property
    def _energy(self) -> _Sums:
        return _Sums(self._fit.energy, self._grid, self._context)

    @cached_property
    def _time(self) -> _Sums | None:
        time = self._fit.time
        return None if time is None else _Sums(time, self._grid, self._context)

    @cached_property
    def _flops(self) -> list[Table]:
        grid = self._grid
        counted = zip(grid.places, grid._features, strict=True)
        return join(
            (
                Table(place.axes, place.count * features[:, 0].reshape(grid.shape(place.axes)))
                for place, features in counted
            ),
            np.add,
        )

    def estimate_many(self, widths: npt.ArrayLike) -> Array:
        """Joules per step of each candidate (m, k)."""
        return self._energy.means(self._levels(widths))

    def seconds(self, widths: npt.ArrayLike) -> Array:
        """Seconds per step of each candidate."""
        levels = self._levels(widths)
        return np.full(len(levels), math.nan) if self._time is None else self._time.means(levels)

    def std(self, widths: npt.ArrayLike) -> Array:
        """Standard deviation of the joules, as `estimate` gives it."""
        return self._energy.stds(self._levels(widths))

    def flops(self, widths: npt.ArrayLike) -> Array:
        """FLOPs per training step of each candidate, forward and backward together."""
        return in_chunks(self._levels(widths), lambda chunk: add_up(self._flops, chunk))

    def energy_gradient(self, widths: npt.ArrayLike) -> Array:
        """Joules per channel of each width (m, k): differences to the sizes above and below.

        Costs have stairs, so a derivative at a point would mislead.
        """
        levels = self._levels(widths)
        slopes = np.empty(levels.shape)
        for axis, (step, largest) in enumerate(zip(self.steps, self.largest, strict=True)):
            up, down = levels.copy(), levels.copy()
            up[:, axis] = np.minimum(levels[:, axis] + 1, largest // step)
            down[:, axis] = np.maximum(levels[:, axis] - 1, 1)
            apart = (up[:, axis] - down[:, axis]) * step
            rise = self._energy.means(up) - self._energy.means(down)
            slopes[:, axis] = rise / np.maximum(apart, 1)
        return slopes

    def layers_at(self, widths: Sequence[int]) -> tuple[Layer, ...]:
        """The layers of one candidate, features included, as `estimate` takes them."""
        (levels,) = self._levels([widths])
        return tuple(self._grid.layers_at(levels))

    def _levels(self, widths: npt.ArrayLike) -> Ints:
        """Candidates as multiples of their steps, checked."""
        given = np.asarray(widths)
        k = len(self.names)
        if given.ndim != 2 or given.shape[1] != k or not np.issubdtype(given.dtype, np.integer):
            raise DataError(
                f"candidates are rows of {k} whole numbers ({', '.join(self.names)}),"
                f" not an array of {given.dtype} and shape {given.shape}"
            )
        given = given.astype(np.intp, copy=False)  # narrow ones overflow when they become indices
        for name, column, step, largest in zip(
            self.names, given.T, self.steps, self.largest, strict=True
        ):
            if len(column) and not (column.min() >= 1 and column.max() <= largest):
                raise DataError(f"{name} goes from {step} to {largest} in this family")
            if step > 1 and (column % step).any():
                raise DataError(f"{name} must be a multiple of {step}")
        if all(step == 1 for step in self.steps):
            return given
        return np.asarray(given // np.array(self.steps))


class _Sums:
    """Means and variances of one quantity."""

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
        return in_chunks(levels, lambda chunk: add_up(self._means, chunk))

    def stds(self, levels: Ints) -> Array:
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
        walk = self.process.whitener @ self.process.walk(np.array([self.context]))[0]
        rows = []
        step = self.process.posterior(self.grid.encoder.encode([STEP]))
        found = [*((p.axes, p.count, after) for p, after in self._posteriors()), ((), 1, step)]
        used = np.flatnonzero(np.any([after.parts.any(0) for _, _, after in found], axis=0))
        for axes, count, after in found:
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
    def _pairs(self) -> list[_Pair]:
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
class _Pair:
    """Twice the covariance of two layers: their weights times a covariance for each coordinate."""

    weights: tuple[Table, Table]
    factors: tuple[Table, ...]
    share: float
    rough: float  # on top, where both are the same layer at the same widths
    same: tuple[Table, ...]

    def at(self, levels: Ints) -> Array:
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


def _pair(grid: Grid, hyper: sum_process.Hyper, a: _Weighed, b: _Weighed) -> _Pair:
    (one, one_x, one_m), (two, two_x, two_m) = a, b
    factors, equal = [], []
    for i, name in enumerate(grid.encoder.coordinates):
        ours, theirs = (_coordinate(grid, *each, i, name) for each in ((one, one_x), (two, two_x)))
        axes, distance = _distance(ours, theirs)
        shape, _ = MATERN.shape(np.square(distance / hyper.lengths[i]))
        factors.append(Table(axes, shape))
        equal.append(Table(axes, (distance == 0).astype(float)))
    same_kind = one.layer.kind.name == two.layer.kind.name
    known = one_x.kind[0] >= 0
    share = hyper.operation**2 + (hyper.kind**2 if same_kind and known else 0.0)
    twins = same_kind and one.layer.kind.attributes == two.layer.kind.attributes
    return _Pair(
        (one_m, two_m),
        tuple(join(factors, np.multiply)),
        share,
        hyper.rough**2 if twins else 0.0,
        tuple(join(equal, np.multiply)) if twins else (),
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


def entries(layers: Sequence[Layer], round_to: int = 1) -> int:
    """How many sizes all layers have together: what making tables takes time for."""
    free = [choice for choice in choices(layers) if not choice.fixed]
    levels = [choice.size // _step(choice, round_to) + 1 for choice in free]
    return sum(math.prod(levels[axis] for axis in place.axes) for place in places_of(layers, free))


def _step(choice: Choice, round_to: int) -> int:
    """What sizes are multiples of; the original must stay one of them."""
    step = math.lcm(choice.step, round_to)
    return step if choice.size % step == 0 else choice.step


def _name(layers: Sequence[Layer], choice: Choice) -> str:
    number, width = choice.places[0]
    return f"{layers[number].name}.{width}"
