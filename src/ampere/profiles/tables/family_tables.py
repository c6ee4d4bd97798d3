"""Family tables: what every member of a family costs, for search over millions of candidates.

A network of a fixed structure is a sum over layers, each a function of the one to three widths that
it meets. So its costs are computed once for every size of these, and a candidate is a few look-ups:

    joules(c1, c2, c3)  =  constant + table(c1, c2) + table(c2, c3)

The variance of the sum is looked up too (see family_sums.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ampere.core import units
from ampere.core.arrays import Array, Ints
from ampere.core.choices import Choice, choices
from ampere.core.layers import Layer
from ampere.core.page import Page
from ampere.errors import ContradictoryRows, DataError, NotCovered
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.encoding.contexts import depth_context
from ampere.estimators.seconds import per_joule
from ampere.profiles.lookup import Table, add_up, in_chunks, join
from ampere.profiles.tables.family_sums import Sums
from ampere.profiles.tables.grid import Count, Grid, places_of


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
        self._depth = depth_context(layers)
        self._grid = Grid(places_of(layers, free), self.largest, self.steps, fit, count)

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        """Which widths there are; nothing is computed for it."""
        sizes = [top // step for top, step in zip(self.largest, self.steps, strict=True)]
        return Page(
            f"Tables of {units.number(math.prod(sizes))} members of a family",
            headers=("width", "from", "to", "in steps of", "sizes"),
            rows=[
                (name, *map(units.number, (step, top, step, count)))
                for name, step, top, count in zip(
                    self.names, self.steps, self.largest, sizes, strict=True
                )
            ],
            align="<>>>>",
            facts=[
                ("candidates", "rows of sizes in this order, for estimate_many, std and seconds"),
                ("learned from", units.plural(len(self._fit.measurements), "measurement")),
            ],
        )

    @cached_property
    def _energy(self) -> Sums:
        return Sums(self._fit.energy, self._grid, self._depth, lambda layers: layers)

    @cached_property
    def _time(self) -> Sums | None:
        energy, time = self._fit.energy, self._fit.time
        if time is None:
            return None
        return Sums(
            time, self._grid, self._depth, lambda layers: per_joule(layers, energy.costs(layers))
        )

    @cached_property
    def _flops(self) -> list[Table]:
        grid = self._grid
        counted = zip(grid.places, grid.features, strict=True)
        return join(
            (
                Table(place.axes, place.count * features[:, 0].reshape(grid.shape(place.axes)))
                for place, features in counted
            ),
            np.add,
        )

    def estimate_many(self, widths: npt.ArrayLike) -> Array:
        """Joules per step of each candidate (m, k)."""
        joules = self._energy.means(self._levels(widths))
        if not (joules > 0).all() or not np.isfinite(joules).all():
            raise ContradictoryRows(
                "the profile's rows contradict each other: they make joules of some of these that"
                " cannot be; look for a wrong row with `ampere report`"
            )
        return joules

    def seconds(self, widths: npt.ArrayLike) -> Array:
        """Seconds per step of each candidate."""
        levels = self._levels(widths)
        return np.full(len(levels), math.nan) if self._time is None else self._time.means(levels)

    def std(self, widths: npt.ArrayLike) -> Array:
        """Standard deviation of the joules, as `estimate` gives it."""
        return self._energy.stds(self._levels(widths))

    def share_std(self, widths: npt.ArrayLike, noisy: bool = True) -> Array:
        """Relative standard deviation of each candidate's share of the largest member's joules.

        As if both were metered side by side: what a moment does to both is not in it. Without noise
        it is that of the mean over a long job.
        """
        whole = self._levels([self.largest])[0]
        return self._energy.share_stds(self._levels(widths), whole, noisy)

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

    def relaxed(self, widths: npt.ArrayLike) -> tuple[Array, Array]:
        """Joules per step at widths between sizes, and joules per channel there, for gradients.

        A smooth surface through all sizes: at these it is `estimate_many`, and `energy_gradient`.
        """
        sizes = np.asarray(widths, dtype=float)
        if sizes.ndim != 2 or sizes.shape[1] != len(self.names):
            raise DataError(
                f"candidates are rows of {len(self.names)} numbers ({', '.join(self.names)}), not"
                f" an array of shape {sizes.shape}"
            )
        for name, column, step, largest in zip(
            self.names, sizes.T, self.steps, self.largest, strict=True
        ):
            if not ((column >= step) & (column <= largest)).all():  # neither is NaN
                raise DataError(
                    f"{name} goes from {step} to {largest} in this family: keep it there, by"
                    " torch.clamp or a sigmoid"
                )
        steps = np.array(self.steps)
        tops = [largest // step for largest, step in zip(self.largest, self.steps, strict=True)]
        surface = self._energy.relaxed(sizes / steps, tops)
        return surface.values, surface.slopes / steps

    def layers_at(self, widths: Sequence[int]) -> tuple[Layer, ...]:
        """The layers of one candidate, features included, as `estimate` takes them."""
        (levels,) = self._levels([widths])
        return tuple(self._grid.layers_at(levels))

    def _levels(self, widths: npt.ArrayLike) -> Ints:
        """Candidates as multiples of their steps, checked."""
        sizes = np.asarray(widths)
        k = len(self.names)
        if sizes.ndim != 2 or sizes.shape[1] != k or not np.issubdtype(sizes.dtype, np.integer):
            raise DataError(
                f"candidates are rows of {k} whole numbers ({', '.join(self.names)}),"
                f" not an array of {sizes.dtype} and shape {sizes.shape}"
            )
        sizes = sizes.astype(np.intp, copy=False)  # narrow ones overflow when they become indices
        for name, column, step, largest in zip(
            self.names, sizes.T, self.steps, self.largest, strict=True
        ):
            if len(column) and not (column.min() >= 1 and column.max() <= largest):
                raise DataError(f"{name} goes from {step} to {largest} in this family")
            if step > 1 and (column % step).any():
                raise DataError(f"{name} must be a multiple of {step}")
        if all(step == 1 for step in self.steps):
            return sizes
        return np.asarray(sizes // np.array(self.steps))


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
