"""Search: how widths are looked for, and the looking.

Which widths is decided by a strategy within a limit that a guide tells; which channels stay at
these widths by their importance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ampere.core.arrays import Ints
from ampere.core.layers import Layer
from ampere.errors import DataError, ModelError
from ampere.profiles.profile import Profile
from ampere.profiles.tables.family_tables import entries
from ampere.pruning.guide import EnergyGuide, FlopsGuide, check_confidence
from ampere.pruning.space import Space
from ampere.pruning.strategies import STRATEGIES

if TYPE_CHECKING:
    from ampere.pytorch.pruning.slimmer import Slimmer

GUIDES = ("energy", "flops")
MANY = 500_000  # sizes of all layers together

Candidates: TypeAlias = Sequence[Mapping[str, int]]  # each the size of every free width, by name


@dataclass(frozen=True)
class Search:
    """How widths are looked for, and which channels stay.

    Args:
        strategy: `random`, `gradient` or `evolution`.
        guide: `energy`, or `flops` to compare with: the same search with FLOPs for joules.
        importance: Which channels stay: `l1`, `l2`, `bn` or `random`.
        confidence: The probability with which the budget holds, by the estimate's own interval.
        least: The share of every width that stays at least.
        round_to: What widths are multiples of; by default 1, or more where a model has so many
            sizes that looking at all would take minutes.
    """

    strategy: str = "random"
    guide: str = "energy"
    importance: str = "l2"
    confidence: float = 0.9
    least: float = 0.1
    round_to: int | None = None

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.strategy not in STRATEGIES:
            raise DataError(
                f"unknown strategy {self.strategy!r}: use one of {', '.join(STRATEGIES)}"
            )
        if self.guide not in GUIDES:
            raise DataError(f"unknown guide {self.guide!r}: use one of {', '.join(GUIDES)}")
        if self.round_to is not None and self.round_to < 1:
            raise DataError(f"widths cannot be multiples of {self.round_to}: use 1 or more")
        if not 0 <= self.least <= 1:
            raise DataError(f"the least share of a width is {self.least}: use a number from 0 to 1")


@dataclass(frozen=True)
class WidthSearch:
    """Looks for the best candidates in a space, always with the same random stream."""

    space: Space
    settings: Search
    whole_j: float  # of a step of the whole model
    count: int  # of candidates, at most
    seed: int

    @property
    def whole(self) -> dict[str, int]:
        """The widths of the whole model."""
        return self._by_name(self.space.largest)

    def find(self, limit_j: float) -> Candidates:
        """The best candidates whose steps take so many joules; the whole model alone if it fits.

        Guided by FLOPs, they have the same share of the whole model's FLOPs.

        Raises:
            DataError: Even the smallest takes more.
        """
        limit = limit_j
        if self.settings.guide == "flops":
            (whole_flops,) = self.space.guide.cost(np.array([self.space.largest]))
            limit = limit_j / self.whole_j * float(whole_flops)
        strategy = STRATEGIES[self.settings.strategy]()
        rows = strategy.find(self.space, limit, np.random.default_rng(self.seed), self.count)
        return [self._by_name(row) for row in rows]

    def score(self, widths: Mapping[str, int]) -> float:
        """How much a candidate keeps, 0 at the most."""
        return float(self.space.score(self._levels(widths))[0])

    def bound(self, widths: Mapping[str, int]) -> float:
        """What the cost of a candidate stays under."""
        return float(self.space.bound(self._levels(widths))[0])

    def _levels(self, widths: Mapping[str, int]) -> Ints:
        return self.space.levels([[widths[name] for name in self.space.names]])

    def _by_name(self, sizes: Sequence[int]) -> dict[str, int]:
        return {name: int(size) for name, size in zip(self.space.names, sizes, strict=True)}


def make_space(
    slimmer: Slimmer,
    profile: Profile,
    settings: Search = Search(),
    of_whole: bool = False,
    is_metered: bool = False,
) -> Space:
    """Every free width from its least to its full size; those that cannot be cut stay full.

    `of_whole` if what counts is the share of the whole model, `is_metered` if the profile was told
    what candidates took beside it.
    """
    round_to = settings.round_to or _coarseness(slimmer.layers)
    family = profile.tabulate(slimmer.layers, round_to=round_to)
    if slimmer.stuck.issuperset(family.names):
        names = ", ".join(family.names)
        raise ModelError(f"nothing can be cut, the channels of {names} cannot be followed")
    lows, worth = [], []
    for name, largest, step in zip(family.names, family.largest, family.steps, strict=True):
        low = max(step, -(-int(np.ceil(settings.least * largest)) // step) * step)
        lows.append(largest if name in slimmer.stuck else min(low, largest))
        kept = np.array([slimmer.kept(name, size) for size in range(0, largest + 1, step)])
        worth.append(np.maximum(kept, np.finfo(float).tiny))
    guide = (
        EnergyGuide(family, settings.confidence, of_whole, is_metered)
        if settings.guide == "energy"
        else FlopsGuide(family)
    )
    return Space(
        names=family.names,
        largest=family.largest,
        steps=family.steps,
        least=lows,
        worth=worth,
        guide=guide,
    )


def _coarseness(layers: Sequence[Layer]) -> int:
    """The finest multiple at which tables are made in seconds."""
    return next((step for step in (1, 2, 4, 8) if entries(layers, step) <= MANY), 16)
