"""Tabulating: a family's costs as tables over its widths, for search over millions of candidates.

A network of a fixed structure is a sum over layers, each a function of the one to three widths that
it meets. So its costs are computed once for every size of these, and a candidate is a few look-ups:

    joules(c1, c2, c3)  =  constant + table(c1, c2) + table(c2, c3)

The variance of the sum is looked up too: its prior from products of one-dimensional covariances
between the layers, what measuring has taken from it from whitened covariances with the rows.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ampere import sums
from ampere.adding import AdditiveFit, inflation
from ampere.encoding import STEP, depth_context
from ampere.errors import DataError, NotCovered
from ampere.layers import Features, Layer, Widths
from ampere.polynomials import fit_features, sample_sizes
from ampere.resizing import Choice, choices
from ampere.sums import Array, Ints

Axes = tuple[int, ...]
Count = Callable[[Layer], Layer]  # fills in a layer's features

CHUNK = 1 << 15  # candidates at once: their look-ups stay in the cache
LARGEST = 4_000_000  # entries of a table
FEW = 400  # sizes of a layer that are counted one by one, where they follow no polynomial


@dataclass(frozen=True, eq=False)
class Table:
    """Values for every size of some of a family's widths; the last dimension may be a vector."""

    axes: Axes
    values: Array

    def at(self, levels: Ints) -> Array:
        """Look up candidates, given by their levels (m, k)."""
        if not self.axes:
            return np.asarray(self.values)
        index = levels[:, self.axes[0]]
        for axis, size in zip(self.axes[1:], self.values.shape[1:], strict=False):
            index = index * size + levels[:, axis]
        return np.asarray(np.take(self._flat, index, axis=0))

    @cached_property
    def _flat(self) -> Array:
        return self.values.reshape(-1, *self.values.shape[len(self.axes) :])


@dataclass(frozen=True)
class _Place:
    """A layer of the family: how often it occurs, and which widths follow which choice."""

    layer: Layer
    count: int
    follows: Mapping[str, tuple[int, Fraction]]  # width: (free choice, ratio)

    @property
    def axes(self) -> Axes:
        return tuple(sorted({axis for axis, _ in self.follows.values()}))


class FamilyTables:
    """What every member of a family costs, at any of its widths up to the original ones.

    `names` are the free widths, named by the layer where they first appear (`conv1.out`); widths
    that are tied to them follow. Candidates are rows of sizes in this order.
    """

    def __init__(self, layers: Sequence[Layer], fit: AdditiveFit, count: Count) -> None:
        self._fit = fit
        unknown = [layer.name for layer in map(count, layers) if not fit.encoder.covers(layer)]
        if unknown:
            raise NotCovered(f"the profile does not cover {', '.join(unknown)}: no tables of it")
        free = [choice for choice in choices(layers) if not choice.fixed]
        if not free:
            raise DataError("no width of this model is free to choose: use `estimate`")
        self.names = tuple(_name(layers, choice) for choice in free)
        self.largest = tuple(choice.size // choice.step * choice.step for choice in free)
        self.steps = tuple(choice.step for choice in free)
        self._context = depth_context(layers)
        self._grid = _Grid(_places(layers, free), self.largest, self.steps, fit, count)

    @cached_property
    def _energy(self) -> _Sums:
        return _Sums(self._fit.energy, self._grid, self._context)

    @cached_property
    def _time(self) -> _Sums | None:
        time = self._fit.time
        return None if time is None else _Sums(time, self._grid, self._context)

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


class _Grid:
    """The layers of a family at every size, as arrays for the processes."""

    def __init__(
        self,
        places: Sequence[_Place],
        largest: Sequence[int],
        steps: Sequence[int],
        fit: AdditiveFit,
        count: Count,
    ) -> None:
        self.places, self.steps, self.encoder = places, steps, fit.encoder
        self._measured = fit.layers
        self.sizes = [top // step + 1 for top, step in zip(largest, steps, strict=True)]
        self._features = [self._count(place, count) for place in places]

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Of a table over these axes; level 0 is there so that levels are indices."""
        return tuple(self.sizes[axis] for axis in axes)

    def levels(self, axes: Axes) -> Iterator[tuple[int, Ints]]:
        """Each axis with its level at every entry of a flat table; level 0 counts as 1."""
        for axis, values in zip(axes, np.indices(self.shape(axes)), strict=True):
            yield axis, np.maximum(values.ravel(), 1)

    def widths(self, place: _Place) -> dict[str, Ints]:
        """The layer's widths at every entry of its table."""
        levels = dict(self.levels(place.axes))
        n = math.prod(self.shape(place.axes))
        return {
            name: self._size(*place.follows[name], levels)
            if name in place.follows
            else np.full(n, width)
            for name, width in place.layer.widths.items()
        }

    def _size(self, axis: int, ratio: Fraction, levels: Mapping[int, Ints]) -> Ints:
        return np.asarray(levels[axis] * self.steps[axis] * ratio.numerator // ratio.denominator)

    def layers(self, number: int) -> sums.Layers:
        """A layer at every entry of its table."""
        place, features = self.places[number], self._features[number]
        widths = self.widths(place)
        n = len(features)
        one = self.encoder.encode([place.layer])
        x = np.repeat(one.x, n, axis=0)
        for name, sizes in widths.items():
            if name in self.encoder.coordinates:
                x[:, self.encoder.coordinates.index(name)] = np.log2(sizes)
        ids = np.full(n, -1)  # of no layer that was measured, unless it is found below
        for layer in self._measured:
            if layer.kind == place.layer.kind and set(layer.widths) == set(widths):
                same = np.ones(n, bool)
                for name, sizes in widths.items():
                    same &= sizes == layer.widths[name]
                ids[same] = self.encoder.encode([replace(layer, kind=place.layer.kind)]).id[0]
        columns = self.encoder.columns(place.layer, features, list(widths.values()))
        return sums.Layers(columns, x, np.repeat(one.op, n), np.repeat(one.kind, n), ids)

    def layers_at(self, levels: Ints) -> Iterator[Layer]:
        """The layers of one candidate."""
        for place, features in zip(self.places, self._features, strict=True):
            index = 0
            for axis in place.axes:
                index = index * self.sizes[axis] + int(levels[axis])
            widths = {name: int(sizes[index]) for name, sizes in self.widths(place).items()}
            yield replace(
                place.layer,
                widths=Widths(widths),
                features=Features(*map(float, features[index])),
                count=place.count,
            )

    def _count(self, place: _Place, count: Count) -> Array:
        """FLOPs and bytes at every entry, (entries, 3)."""
        if not place.axes:
            return _features([count(place.layer)])
        shape = self.shape(place.axes)
        if math.prod(shape) > LARGEST:
            raise DataError(
                f"{place.layer.name} has too many sizes for a table: estimate candidates one by one"
            )
        tops = [size - 1 for size in shape]
        several = [
            np.unique(np.linspace(1, top, sample_sizes(len(shape))).round().astype(int))
            for top in tops
        ]
        samples = [self._at(place, levels, count) for levels in itertools.product(*several)]
        polynomial = fit_features(samples)
        if polynomial is not None:
            return polynomial.at(np.column_stack([levels for _, levels in self.levels(place.axes)]))
        if math.prod(tops) > FEW:
            raise DataError(
                f"the FLOPs of {place.layer.name} follow no polynomial of its widths: estimate its"
                " candidates one by one"
            )
        every = itertools.product(*(range(size) for size in shape))
        counted = [self._at(place, [max(level, 1) for level in levels], count) for levels in every]
        return _features(counted)

    def _at(self, place: _Place, levels: Sequence[int], count: Count) -> Layer:
        """A counted layer, with the levels in place of its widths: tied widths add nothing."""
        at = dict(zip(place.axes, np.asarray(levels), strict=True))
        sizes = {
            name: int(self._size(*place.follows[name], at)) if name in place.follows else width
            for name, width in place.layer.widths.items()
        }
        counted = count(replace(place.layer, widths=Widths(sizes)))
        named = {f"{axis:03}": int(level) for axis, level in at.items()}
        return replace(counted, widths=Widths(named))


class _Sums:
    """Means and variances of one quantity."""

    def __init__(self, process: sums.SumProcess, grid: _Grid, context: float) -> None:
        self.process, self.grid, self.context = process, grid, context
        self._means = _merged(self._mean_tables(), grid)

    def _posteriors(self) -> Iterator[tuple[_Place, sums.Posterior]]:
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
        return _in_chunks(levels, lambda chunk: _summed(self._means, chunk))

    def stds(self, levels: Ints) -> Array:
        return _in_chunks(levels, self._std)

    def _std(self, levels: Ints) -> Array:
        cross, parts, size, squares = self._variance_tables
        taken = _summed(cross, levels)
        weighed = _summed(parts, levels)
        total = _summed(size, levels)
        walk = self.process.hyper.context**2 * self.context
        var = _summed(squares, levels) + walk * total**2
        var += np.einsum("ij,ij->i", weighed, weighed)
        for pair in self._pairs:
            var += pair.at(levels)
        var -= np.einsum("ij,ij->i", taken, taken)
        mean = _summed(self._means, levels)
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
        merged = [_merged(tables, self.grid) for tables in (cross_, parts_, size_, squares_)]
        return merged[0], merged[1], merged[2], merged[3]

    @cached_property
    def _pairs(self) -> list[_Pair]:
        """Covariances between two layers of one operation."""
        grid, hyper = self.grid, self.process.hyper
        weights = []
        for number, place in enumerate(grid.places):
            m = sums.expand(grid.layers(number), self.process.beta).sum(1)
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


_Weighed = tuple[_Place, sums.Layers, Table]


def _pair(grid: _Grid, hyper: sums.Hyper, a: _Weighed, b: _Weighed) -> _Pair:
    (one, one_x, one_m), (two, two_x, two_m) = a, b
    factors, equal = [], []
    for i, name in enumerate(grid.encoder.coordinates):
        ours, ours_axes = _coordinate(grid, one, one_x, i, name)
        theirs, theirs_axes = _coordinate(grid, two, two_x, i, name)
        axes, distance = _difference(grid, ours, ours_axes, theirs, theirs_axes)
        factors.append(Table(axes, _matern(distance / hyper.lengths[i])))
        equal.append(Table(axes, (distance == 0).astype(float)))
    same_kind = one.layer.kind.name == two.layer.kind.name
    known = one_x.kind[0] >= 0
    share = hyper.operation**2 + (hyper.kind**2 if same_kind and known else 0.0)
    twins = same_kind and one.layer.kind.attributes == two.layer.kind.attributes
    return _Pair(
        (one_m, two_m),
        tuple(_multiplied(factors, grid)),
        share,
        hyper.rough**2 if twins else 0.0,
        tuple(_multiplied(equal, grid)) if twins else (),
    )


def _coordinate(
    grid: _Grid, place: _Place, encoded: sums.Layers, i: int, name: str
) -> tuple[Array, Axes]:
    """One coordinate of a layer at every level of the choice that it follows, if any."""
    if name not in place.follows:
        return np.array(encoded.x[0, i]), ()
    axis, ratio = place.follows[name]
    ((_, levels),) = grid.levels((axis,))
    return np.log2(grid._size(axis, ratio, {axis: levels})), (axis,)


def _difference(
    grid: _Grid, ours: Array, ours_axes: Axes, theirs: Array, theirs_axes: Axes
) -> tuple[Axes, Array]:
    if ours_axes == theirs_axes:
        return ours_axes, np.abs(ours - theirs)
    axes = tuple(sorted({*ours_axes, *theirs_axes}))
    return axes, np.abs(
        _broadcast(Table(ours_axes, ours), axes, grid)
        - _broadcast(Table(theirs_axes, theirs), axes, grid)
    )


def _matern(distance: Array) -> Array:
    r = np.sqrt(5.0) * distance
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))


def _places(layers: Sequence[Layer], free: Sequence[Choice]) -> list[_Place]:
    """The layers that differ, with how often each occurs."""
    follows: dict[int, dict[str, tuple[int, Fraction]]] = defaultdict(dict)
    for axis, choice in enumerate(free):
        for (number, width), ratio in zip(choice.places, choice.ratios, strict=True):
            follows[number][width] = (axis, ratio)
    found: dict[object, _Place] = {}
    for number, layer in enumerate(layers):
        fixed = {name: size for name, size in layer.widths.items() if name not in follows[number]}
        key = (
            layer.kind.name,
            tuple(sorted(follows[number].items())),
            tuple(sorted(fixed.items())),
        )
        known = found.get(key)
        count = layer.count + (known.count if known else 0)
        found[key] = _Place(known.layer if known else layer, count, dict(follows[number]))
    return list(found.values())


def _name(layers: Sequence[Layer], choice: Choice) -> str:
    number, width = choice.places[0]
    return f"{layers[number].name}.{width}"


def _merged(tables: Iterable[Table], grid: _Grid) -> list[Table]:
    """Tables that add up, joined where the axes of one contain those of another."""
    return _joined(tables, grid, np.add)


def _multiplied(tables: Iterable[Table], grid: _Grid) -> list[Table]:
    return _joined(tables, grid, np.multiply)


def _joined(tables: Iterable[Table], grid: _Grid, join: Callable[..., Array]) -> list[Table]:
    """Tables joined where the axes of one contain those of another."""
    found: dict[Axes, Array] = {}
    for table in sorted(tables, key=lambda table: -len(table.axes)):
        home = next((axes for axes in found if set(table.axes) <= set(axes)), None)
        if home is None:
            found[table.axes] = table.values
        else:
            found[home] = join(found[home], _broadcast(table, home, grid))
    return [Table(axes, np.ascontiguousarray(values)) for axes, values in found.items()]


def _broadcast(table: Table, axes: Axes, grid: _Grid) -> Array:
    """A table's values in the shape of one with more axes."""
    extra = table.values.shape[len(table.axes) :]
    shape = [grid.sizes[axis] if axis in table.axes else 1 for axis in axes]
    return table.values.reshape(*shape, *extra)


def _summed(tables: Sequence[Table], levels: Ints) -> Array:
    total = tables[0].at(levels)
    for table in tables[1:]:
        total = total + table.at(levels)
    return total


def _in_chunks(levels: Ints, work: Callable[[Ints], Array]) -> Array:
    result = np.empty(len(levels))
    for start in range(0, len(levels), CHUNK):
        result[start : start + CHUNK] = work(levels[start : start + CHUNK])
    return result


def _features(layers: Sequence[Layer]) -> Array:
    return np.array([list(vars(layer.features).values()) for layer in layers], float)
