"""Guides: what candidates cost, in joules by a profile or, to compare with, in FLOPs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.core.units import flops, joules
from ampere.errors import DataError
from ampere.profiles.tables.family_tables import FamilyTables


def check_confidence(confidence: float) -> None:
    """Raise unless it is a probability with which a budget can be asked to hold."""
    if not 0.5 <= confidence < 1:
        raise DataError(f"confidence is {confidence}: use 0.5 or more, and less than 1")


class Guide(Protocol):
    """What candidates cost."""

    def cost(self, widths: Ints) -> Array:
        """What is expected of each."""

    def bound(self, widths: Ints) -> Array:
        """What each stays under with the asked confidence; never less than its cost."""

    def describe(self, cost: float) -> str:
        """A cost in words."""


@dataclass(frozen=True)
class EnergyGuide:
    """Joules of a training step, from a profile's tables.

    Where the budget is a share of the whole model, what counts is the doubt about that share: most
    of what a profile does not know is off for both alike. Once candidates were metered beside it,
    it is the doubt about the mean over a job, since another metering tells nobody anything then.
    """

    tables: FamilyTables
    confidence: float = 0.5
    of_whole: bool = False
    is_metered: bool = False

    def __post_init__(self) -> None:
        check_confidence(self.confidence)

    def cost(self, widths: Ints) -> Array:
        """Expected joules."""
        return self.tables.estimate_many(widths)

    def bound(self, widths: Ints) -> Array:
        """Joules that are not exceeded with the asked confidence."""
        if self.confidence == 0.5:
            return self.cost(widths)
        deviations = NormalDist().inv_cdf(self.confidence)
        tables, cost = self.tables, self.cost(widths)
        if self.of_whole:
            doubt = tables.share_std(widths, noisy=not self.is_metered)
        else:
            doubt = tables.std(widths) / cost
        return cost * np.exp(deviations * doubt)

    def describe(self, cost: float) -> str:
        """`1.23 mJ`."""
        return joules(cost)


@dataclass(frozen=True)
class FlopsGuide:
    """FLOPs of a training step, which are known exactly."""

    tables: FamilyTables

    def cost(self, widths: Ints) -> Array:
        """FLOPs, forward and backward together."""
        return self.tables.flops(widths)

    def bound(self, widths: Ints) -> Array:
        """The same."""
        return self.cost(widths)

    def describe(self, cost: float) -> str:
        """`743 MFLOP`."""
        return flops(cost)
