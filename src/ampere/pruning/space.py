"""Space: all widths that a model may be cut to, with what each costs and keeps.

symbol     meaning
widths     candidates (m, k): rows of sizes, one for each axis, in the order of `FamilyTables.names`
levels     the same in steps: size // step
cost       what a guide expects a step of a candidate to take
bound      what that stays under with the asked confidence; it is what must be within the limit
score      sum over axes of the log of the worth that is kept: a product, so no layer is starved
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.errors import DataError
from ampere.pruning.guide import Guide


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
