"""Strategies: which widths to keep, within a limit on the joules or the FLOPs of a step.

Every strategy ends by growing what is free, and what the limit has left (`walk.grow_back`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Ints
from ampere.errors import DataError
from ampere.pruning.space import Space
from ampere.pruning.walk import cut_down, first_within, grow_back

CHUNK = 1 << 15  # candidates that are drawn at once
SPARES = 3  # candidates that are polished beyond those asked for: the best may change places


class WidthStrategy(Protocol):
    """A way to look for widths."""

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
            rows = first_within(space, _ranked(space, rows), limit, count + SPARES)
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
        candidates = [cut_down(space, limit)]
        for _ in range(count + SPARES if count > 1 else 0):
            factors = np.exp(self.scatter * rng.standard_normal(len(space.names)))
            worth = [
                np.power(share, factor) for share, factor in zip(space.worth, factors, strict=True)
            ]
            candidates.append(cut_down(replace(space, worth=worth), limit))
        return _polished(space, np.array(candidates), limit, count)


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
            young = first_within(space, young, limit, len(young))
            pool = _ranked(space, np.concatenate((pool, young)))[: self.population]
            young = _mutate(space, _cross(pool, self.population, rng), rng)
        return _polished(space, pool[: count + SPARES], limit, count)


STRATEGIES: Mapping[str, Callable[[], WidthStrategy]] = {
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


def _select(rows: Ints, wanted: npt.NDArray[np.bool_]) -> Ints:
    """Some of the rows, with whole columns still together."""
    return np.compress(wanted, rows.T, axis=1).T


def _ranked(space: Space, rows: Ints) -> Ints:
    """Different candidates, the best first."""
    rows = np.unique(rows, axis=0)
    return np.asarray(rows[np.argsort(-space.score(rows), kind="stable")])


def _polished(space: Space, rows: Ints, limit: float, count: int) -> Ints:
    """The best candidates once they are grown, as sizes."""
    grown = np.array([grow_back(space, row, limit) for row in rows])
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
