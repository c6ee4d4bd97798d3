"""Walks: from one candidate to a narrower or a wider one, along the axes.

Costs have stairs: some sizes cost what a larger one costs. So a walk looks beyond the next size.
A line has the costs along one axis, from a candidate's level to the end, the others as they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.pruning.space import Space

BATCH = 256  # candidates whose bounds are computed at once: they take many times what costs take
SAME = 1e-9  # costs that differ by less, relatively, are the same
CUT_SHARE, GROW_SHARE = 0.25, 0.5  # of the way to the limit, between two looks at all costs
NOTHING = 1e-12  # the least price of a step, as a share of the limit or of the score


def first_within(space: Space, rows: Ints, limit: float, count: int) -> Ints:
    """The first candidates whose bounds are within the limit."""
    fitting = rows[:0]
    for start in range(0, len(rows), BATCH):
        if len(fitting) >= count:
            break
        batch = rows[start : start + BATCH]
        fitting = np.concatenate((fitting, batch[space.bound(batch) <= limit]))
    return fitting[:count]


def cut_down(space: Space, limit: float) -> Ints:
    """Levels (k,) from the full widths, which are above the limit, down to it.

    Every cut is the one that saves most for what it loses.
    """
    levels = space.high
    excess = space.bound(levels[None])[0] - limit
    while True:
        lines = _lines(space, levels, space.low)
        savings = [line[0] - line for line in lines]
        losses = [
            -log[low : level + 1][::-1]
            for log, low, level in zip(space.logs, space.low, levels, strict=True)
        ]
        cuts = _walk(savings, losses, lines, CUT_SHARE * excess)
        if not cuts.any():  # no size of any one axis is cheaper, as where the widest one counts
            return space.low
        excess = space.bound((levels - cuts)[None])[0] - limit
        if excess <= 0:
            break
        levels = levels - cuts
    longest = cuts.max()
    shorter_cuts = -(-np.outer(np.arange(1, longest + 1), cuts) // longest)
    smallest_enough = first_within(space, levels - shorter_cuts, limit, 1)[0]
    return np.asarray(smallest_enough)


def grow_back(space: Space, levels: Ints, limit: float) -> Ints:
    """The same levels (k,), within the limit, with what is free and what is left of it.

    Afterwards every larger size of any one axis costs more, and none that is worth more is within
    the limit. A free size whose bound is above the limit is not taken.
    """
    while len(larger := first_within(space, _larger(space, levels, limit), limit, 1)):
        (levels,) = larger
    return levels


def _larger(space: Space, levels: Ints, limit: float) -> Ints:
    """What could be grown: many steps at once, then each of one axis, the best first."""
    lines = _lines(space, levels, space.high)
    present_cost = lines[0][0]
    slack = max(0.0, limit - space.bound(levels[None])[0])
    most = present_cost + slack + SAME * limit  # as if bounds rose by no more than costs
    gains, prices, steps_ahead, ratios = [], [], [], []
    for log, line, level in zip(space.logs, lines, levels, strict=True):
        gain = np.where(line <= most, log[level:] - log[level], -np.inf)
        price = (line - present_cost) / limit
        is_free = line <= present_cost + SAME * abs(present_cost)
        steps = np.flatnonzero((gain > 0) | is_free)[1:]  # no step at all is free, too
        gains.append(gain)
        prices.append(price)
        steps_ahead.append(steps)
        ratios.append(gain[steps] / np.maximum(price[steps], NOTHING))
    single = _one_axis_away(levels, steps_ahead)
    single = single[np.argsort(-np.concatenate(ratios), kind="stable")]
    walk = _walk(gains, prices, lines, GROW_SHARE * slack)
    return np.concatenate(((levels + walk)[None], single)) if walk.any() else single


def _lines(space: Space, levels: Ints, ends: Ints) -> list[Array]:
    """Costs along each axis, from its level to its end, the others as they are."""
    steps_ahead = [np.arange(abs(way) + 1) * np.sign(way) for way in ends - levels]
    costs = space.cost(_one_axis_away(levels, steps_ahead))
    return np.split(costs, np.cumsum([len(steps) for steps in steps_ahead])[:-1])


def _one_axis_away(levels: Ints, steps_ahead: Sequence[Ints]) -> Ints:
    """The candidates that are one of these steps away, on one axis."""
    axes = np.repeat(np.arange(len(steps_ahead)), [len(steps) for steps in steps_ahead])
    columns = np.repeat(levels[:, None], len(axes), axis=1)
    columns[axes, np.arange(len(axes))] += np.concatenate(steps_ahead)
    return columns.T


def _walk(
    profits: Sequence[Array], prices: Sequence[Array], lines: Sequence[Array], most: float
) -> Ints:
    """How far to go on each axis (k,): step by step, the most profit for its price first.

    It ends where costs have changed by `most`, but not before the first step. Until then steps on
    one axis are taken not to change the costs along the others.
    """
    reached = np.zeros(len(lines), dtype=np.intp)
    heap: list[tuple[float, int, int]] = []

    def look_ahead(axis: int) -> None:
        profit, price = profits[axis][reached[axis] :], prices[axis][reached[axis] :]
        ratios = (profit[1:] - profit[0]) / np.maximum(price[1:] - price[0], NOTHING)
        if len(ratios) and ratios.max() > 0:
            best = int(ratios.argmax())
            heapq.heappush(heap, (-float(ratios[best]), axis, int(reached[axis]) + best + 1))

    for axis in range(len(lines)):
        look_ahead(axis)
    changed = 0.0
    while heap:
        _, axis, target = heapq.heappop(heap)
        changed += abs(lines[axis][target] - lines[axis][reached[axis]])
        if reached.any() and changed > most:
            break
        reached[axis] = target
        look_ahead(axis)
    return reached
