"""Searching: which widths to keep, within a limit on the joules or the FLOPs of a step.

symbol     meaning
widths     candidates (m, k): rows of sizes, one for each axis, in the order of `FamilyTables.names`
levels     the same in steps: size // step
cost       what a guide expects a step of a candidate to take
bound      what that stays under with the asked confidence; it is what must be within the limit
score      sum over axes of the log of the worth that is kept: a product, so no layer is starved

Costs have stairs: some sizes cost what a larger one costs. So every strategy looks beyond the next
size, and ends by growing what is free, and what the limit has left (`regrow`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.errors import DataError
from ampere.pruning.guide import Guide

CHUNK = 1 << 15  # candidates that are drawn at once
BATCH = 256  # candidates whose bounds are computed at once: they take many times what costs take
SPARES = 3  # candidates that are polished beyond those asked for: the best may change places
SAME = 1e-9  # costs that differ by less, relatively, are the same
CUT_SHARE, GROW_SHARE = 0.25, 0.5  # of the way to the limit, between two looks at all costs
NOTHING = 1e-12  # the least price of a step, as a share of the limit or of the score


@dataclass(frozen=True, eq=False)
class Space:
    """What is searched: sizes of each axis from `least` to `largest`, in steps.

    `worth` has an array for each axis: at level n, the share of its importance that is kept when
    its best n · step channels stay. It never falls, and is 1 at the largest size.
    """

    names: Sequence[str]
    largest: Sequence[int]
    steps: Sequence[int]
    least: Sequence[int]
    worth: Sequence[Array]
    guide: Guide

    def __post_init__(self) -> None:
        axes = zip(self.names, self.largest, self.steps, self.least, self.worth, strict=True)
        for name, largest, step, least, worth in axes:
            if largest % step or least % step or not step <= least <= largest:
                raise DataError(
                    f"{name} cannot go from {least} to {largest}: use multiples of {step}"
                )
            if len(worth) != largest // step + 1 or not np.isclose(worth[-1], 1):
                raise DataError(f"{name} needs its worth at each of its sizes, and 1 at {largest}")
            kept = worth[least // step :]
            if not (kept[0] > 0 and (np.diff(kept) >= 0).all()):
                raise DataError(f"the worth of {name} must be above 0 and never fall with its size")

    @cached_property
    def low(self) -> Ints:
        """The least levels (k,)."""
        return self.levels(self.least)

    @cached_property
    def high(self) -> Ints:
        """The largest levels (k,)."""
        return self.levels(self.largest)

    @cached_property
    def logs(self) -> list[Array]:
        """The log of the worth at each level of each axis."""
        return [
            np.log(worth, out=np.full(len(worth), -np.inf), where=np.asarray(worth) > 0)
            for worth in self.worth
        ]

    def widths(self, levels: Ints) -> Ints:
        """Levels as sizes."""
        if all(step == 1 for step in self.steps):
            return levels
        return np.asarray(levels * np.array(self.steps))

    def levels(self, widths: npt.ArrayLike) -> Ints:
        """Sizes as levels."""
        return np.asarray(widths) // np.array(self.steps, dtype=np.intp)

    def cost(self, levels: Ints) -> Array:
        """Expected cost of each candidate."""
        return self.guide.cost(self.widths(levels))

    def bound(self, levels: Ints) -> Array:
        """What its cost stays under."""
        return self.guide.bound(self.widths(levels))

    def score(self, levels: Ints) -> Array:
        """How much each candidate keeps, 0 at the most."""
        total = np.zeros(len(levels))
        for log, column in zip(self.logs, levels.T, strict=True):
            total += np.take(log, column)
        return total


class Search(Protocol):
    """A strategy."""

    def find(self, space: Space, limit: float, rng: np.random.Generator, count: int = 1) -> Ints:
        """Up to `count` different candidates within the limit (<= count, k), the best first.

        Raises:
            DataError: Even the smallest candidate is above the limit.
        """


@dataclass(frozen=True)
class Random:
    """The best of many random candidates.

    Li et al., "Revisiting random channel pruning for neural network compression", CVPR 2022.
    """

    draws: int = 1_000_000

    def find(self, space: Space, limit: float, rng: np.random.Generator, count: int = 1) -> Ints:
        """Draw, keep what is within the limit, take those of the best score."""
        if _fits_whole(space, limit):
            return space.widths(space.high[None])
        best, floor = space.low[None], -np.inf
        for start in range(0, self.draws, CHUNK):
            rows = draw(space, rng, min(CHUNK, self.draws - start))
            rows = _select(rows, space.score(rows) > floor)
            rows = _select(rows, space.cost(rows) <= limit)  # a bound is no less than a cost
            rows = _within(space, _ranked(space, rows), limit, count + SPARES)
            best = _ranked(space, np.concatenate((best, rows)))[: count + SPARES]
            if len(best) == count + SPARES:
                floor = space.score(best[-1:])[0]
        return _polished(space, best, limit, count)


@dataclass(frozen=True)
class Gradient:
    """From the full widths down, always by the cut that saves most for what it loses."""

    scatter: float = 0.5  # standard deviation of the log of the factors that make variants

    def find(self, space: Space, limit: float, rng: np.random.Generator, count: int = 1) -> Ints:
        """Cut until within the limit; the first candidate takes nothing from `rng`.

        Further ones are found where the axes matter more, or less, than they do.
        """
        if _fits_whole(space, limit):
            return space.widths(space.high[None])
        found = [_descend(space, limit)]
        for _ in range(count + SPARES if count > 1 else 0):
            factors = np.exp(self.scatter * rng.standard_normal(len(space.names)))
            worth = [np.power(each, by) for each, by in zip(space.worth, factors, strict=True)]
            found.append(_descend(replace(space, worth=worth), limit))
        return _polished(space, np.array(found), limit, count)


@dataclass(frozen=True)
class Evolution:
    """Mutation and crossover, from random candidates and the one that `Gradient` finds."""

    population: int = 128
    generations: int = 60

    def find(self, space: Space, limit: float, rng: np.random.Generator, count: int = 1) -> Ints:
        """Breed; a candidate gives way only to a better one."""
        if _fits_whole(space, limit):
            return space.widths(space.high[None])
        pool = space.levels(Gradient().find(space, limit, rng))
        # Bounds are slow, and at the limit they are about in this ratio to costs.
        target = float(limit * (space.cost(pool) / space.bound(pool))[0])
        young = draw(space, rng, self.population)
        for _ in range(self.generations):
            young = _settle(space, young, target, rng)
            floor = space.score(pool[-1:])[0] if len(pool) == self.population else -np.inf
            young = young[(space.score(young) > floor) & (space.cost(young) <= limit)]
            young = _within(space, young, limit, len(young))
            pool = _ranked(space, np.concatenate((pool, young)))[: self.population]
            young = _mutate(space, _cross(pool, self.population, rng), rng)
        return _polished(space, pool[: count + SPARES], limit, count)


SEARCHES: Mapping[str, Callable[[], Search]] = {
    "random": Random,
    "gradient": Gradient,
    "evolution": Evolution,
}


def draw(space: Space, rng: np.random.Generator, count: int) -> Ints:
    """Random levels (count, k), whatever the guide.

    Each candidate has a range of shares of its own, and its axes are drawn uniformly from it. From
    their whole ranges they would average out: with 20 axes hardly a candidate costs as little as a
    tenth of the full one, or as much as nine tenths. So every budget has some, with any number of
    axes.
    """
    bottom, top = np.sort(rng.random((2, count), dtype=np.float32), axis=0)
    span = top - bottom
    columns = np.empty((len(space.names), count), dtype=np.intp)
    for column, low, high in zip(columns, space.low.tolist(), space.high.tolist(), strict=True):
        share = bottom + span * rng.random(count, dtype=np.float32)
        np.minimum(low + share * (high - low + 1), high, out=column, casting="unsafe")
    return columns.T  # whole columns lie together: they are what tables are looked up by


def regrow(space: Space, widths: Ints, limit: float) -> Ints:
    """The same widths (k,), within the limit, with what is free and what is left of it.

    Afterwards every larger size of any one axis costs more, and none that is worth more is within
    the limit. A free size whose bound is above the limit is not taken.
    """
    return space.widths(_regrow(space, space.levels(widths), limit))


def _regrow(space: Space, levels: Ints, limit: float) -> Ints:
    while len(larger := _within(space, _larger(space, levels, limit), limit, 1)):
        (levels,) = larger
    return levels


def _larger(space: Space, levels: Ints, limit: float) -> Ints:
    """What could be grown: many steps at once, then each of one axis, the best first."""
    lines = _lines(space, levels, space.high)
    now = lines[0][0]
    slack = max(0.0, limit - space.bound(levels[None])[0])
    most = now + slack + SAME * limit  # as if bounds rose by no more than costs
    gains, prices, ahead, ratios = [], [], [], []
    for log, line, level in zip(space.logs, lines, levels, strict=True):
        gain = np.where(line <= most, log[level:] - log[level], -np.inf)
        price = (line - now) / limit
        steps = np.flatnonzero((gain > 0) | (line <= now + SAME * abs(now)))[1:]  # 0 is free, too
        gains.append(gain)
        prices.append(price)
        ahead.append(steps)
        ratios.append(gain[steps] / np.maximum(price[steps], NOTHING))
    rows = _alone(levels, ahead)[np.argsort(-np.concatenate(ratios), kind="stable")]
    walk = _walk(gains, prices, lines, GROW_SHARE * slack)
    return np.concatenate(((levels + walk)[None], rows)) if walk.any() else rows


def _descend(space: Space, limit: float) -> Ints:
    """From the full widths, which are above the limit, down to it."""
    levels = space.high
    over = space.bound(levels[None])[0] - limit
    while True:
        lines = _lines(space, levels, space.low)
        savings = [line[0] - line for line in lines]
        losses = [
            -log[low : level + 1][::-1]
            for log, low, level in zip(space.logs, space.low, levels, strict=True)
        ]
        cuts = _walk(savings, losses, lines, CUT_SHARE * over)
        if not cuts.any():  # no size of any one axis is cheaper, as where the widest one counts
            return space.low
        over = space.bound((levels - cuts)[None])[0] - limit
        if over <= 0:
            break
        levels = levels - cuts
    most = cuts.max()
    parts = -(-np.outer(np.arange(1, most + 1), cuts) // most)
    return np.asarray(_within(space, levels - parts, limit, 1)[0])  # the smallest that is enough


def _lines(space: Space, levels: Ints, ends: Ints) -> list[Array]:
    """Costs along each axis, from its level to its end, the others as they are."""
    ahead = [np.arange(abs(way) + 1) * np.sign(way) for way in ends - levels]
    costs = space.cost(_alone(levels, ahead))
    return np.split(costs, np.cumsum([len(steps) for steps in ahead])[:-1])


def _alone(levels: Ints, ahead: Sequence[Ints]) -> Ints:
    """The candidates that are one of these steps away, on one axis."""
    axes = np.repeat(np.arange(len(ahead)), [len(steps) for steps in ahead])
    columns = np.repeat(levels[:, None], len(axes), axis=1)
    columns[axes, np.arange(len(axes))] += np.concatenate(ahead)
    return columns.T


def _walk(
    profits: Sequence[Array], prices: Sequence[Array], lines: Sequence[Array], most: float
) -> Ints:
    """How far to go on each axis (k,): step by step, the most profit for its price first.

    It ends where costs have changed by `most`, but not before the first step. Until then steps on
    one axis are taken not to change the costs along the others.
    """
    at = np.zeros(len(lines), dtype=np.intp)
    heap: list[tuple[float, int, int]] = []

    def look_ahead(axis: int) -> None:
        profit, price = profits[axis][at[axis] :], prices[axis][at[axis] :]
        ratios = (profit[1:] - profit[0]) / np.maximum(price[1:] - price[0], NOTHING)
        if len(ratios) and ratios.max() > 0:
            best = int(ratios.argmax())
            heapq.heappush(heap, (-float(ratios[best]), axis, int(at[axis]) + best + 1))

    for axis in range(len(lines)):
        look_ahead(axis)
    changed = 0.0
    while heap:
        _, axis, to = heapq.heappop(heap)
        changed += abs(lines[axis][to] - lines[axis][at[axis]])
        if at.any() and changed > most:
            break
        at[axis] = to
        look_ahead(axis)
    return at


def _within(space: Space, rows: Ints, limit: float, count: int) -> Ints:
    """The first candidates whose bounds are within the limit."""
    found = rows[:0]
    for start in range(0, len(rows), BATCH):
        if len(found) >= count:
            break
        some = rows[start : start + BATCH]
        found = np.concatenate((found, some[space.bound(some) <= limit]))
    return found[:count]


def _select(rows: Ints, wanted: npt.NDArray[np.bool_]) -> Ints:
    """Some of the rows, with whole columns still together."""
    return np.compress(wanted, rows.T, axis=1).T


def _ranked(space: Space, rows: Ints) -> Ints:
    """Different candidates, the best first."""
    rows = np.unique(rows, axis=0)
    return np.asarray(rows[np.argsort(-space.score(rows), kind="stable")])


def _polished(space: Space, rows: Ints, limit: float, count: int) -> Ints:
    """The best candidates once they are grown, as sizes."""
    grown = np.array([_regrow(space, row, limit) for row in rows])
    return space.widths(_ranked(space, grown)[:count])


def _fits_whole(space: Space, limit: float) -> bool:
    """Whether nothing has to be cut."""
    least, full = space.bound(np.stack((space.low, space.high)))
    if full <= limit:
        return True
    if not least <= limit:
        needed, allowed = map(space.guide.describe, (float(least), limit))
        raise DataError(
            f"the least possible is {needed} a step, to be as sure as asked, and {allowed} are"
            " allowed: allow more, or ask for less confidence or smaller least widths"
        )
    return False


def _settle(space: Space, rows: Ints, target: float, rng: np.random.Generator) -> Ints:
    """Bring each candidate to the target on one axis, at random: the largest size that fits."""
    rows, each = rows.copy(), np.arange(len(rows))
    axis = rng.integers(rows.shape[1], size=len(rows))
    low, high = space.low[axis], space.high[axis]
    for _ in range(int((space.high - space.low).max()).bit_length()):
        rows[each, axis] = middle = (low + high + 1) // 2
        fits = space.cost(rows) <= target
        low, high = np.where(fits, middle, low), np.where(fits, high, np.maximum(middle - 1, low))
    rows[each, axis] = low
    return rows


def _cross(pool: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Children that have most of their sizes from one parent, the others from another."""
    one, other = pool[rng.integers(len(pool), size=(2, count))]
    swapped = rng.random(one.shape) < 0.5 * rng.random((count, 1))
    return np.asarray(np.where(swapped, other, one))


def _mutate(space: Space, rows: Ints, rng: np.random.Generator) -> Ints:
    """Change one or two sizes of each, by steps of all lengths."""
    reach = 0.3 * 0.03 ** rng.random((len(rows), 1)) * (space.high - space.low)
    steps = np.rint(reach * rng.standard_normal(rows.shape)).astype(np.intp)
    changed = rng.random(rows.shape) < 1.5 / rows.shape[1]
    return np.asarray(np.clip(rows + np.where(changed, steps, 0), space.low, space.high))
