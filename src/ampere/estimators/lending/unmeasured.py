"""Unmeasured: what other devices say of one that nobody has metered yet.

It is taken for one more of their sort: as far from what is typical of them, and as far from their
level, as they are themselves. Of one device alone nobody knows how far that is, of two hardly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.estimators.base import Cost, Line, Prediction
from ampere.estimators.encoding.encoder import STEP, Lent
from ampere.estimators.intervals import inflation
from ampere.estimators.lending.lenders import Lenders

# Standard deviation of the logarithm of how dear a device is, before any is known, which counts as
# much as so many devices.
LEVEL, USUAL = 0.8, 2
OWN = 0.15  # of a network, in what is nobody else's


@dataclass(frozen=True)
class UnmeasuredFit:
    """A device without a row of its own, between those that lend."""

    lenders: Lenders
    method: str = field(default="additive", init=False)

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """Lines and total, with the whole spread of devices in the deviation."""
        covered = [layer for layer in layers if self.lenders.knows(layer)]
        uncovered = tuple(layer for layer in layers if not self.lenders.knows(layer))
        if not covered:
            return Prediction((), Cost(math.nan, math.nan), uncovered)
        whole = (*covered, STEP)
        lent = self.lenders.lend(whole)
        costs = np.array([layer.count * layer.part for layer in whole]) * lent.typical
        total_j = float(costs.sum())
        share = costs / total_j
        pace, off = self._pace(covered)
        lines = tuple(
            Line(layer, self._cost(float(cost), _deviation(lent, one), pace, off))
            for layer, cost, one in zip(whole, costs, np.eye(len(whole)), strict=True)
        )
        total = self._cost(total_j, _deviation(lent, share), pace, off)
        zero = np.zeros(lent.apart.shape[1])
        parts = self.lenders.parts(whole, share, zero, 1.0)
        return Prediction(lines, total, uncovered, total.energy_j_std, lent=parts)

    def _cost(self, energy_j: float, deviation: float, pace: float | None, off: float) -> Cost:
        doubt = inflation(len(self.lenders.each) - 1 + USUAL) * math.hypot(
            deviation, self.level_std
        )
        if pace is None:
            return Cost(energy_j, doubt * energy_j)
        time_s = pace * energy_j
        return Cost(energy_j, doubt * energy_j, time_s, math.hypot(doubt, off) * time_s)

    @cached_property
    def level_std(self) -> float:
        """How far from theirs another device's level may be."""
        levels = self.lenders.levels
        return _spread(levels) * math.sqrt(1 + 1 / len(levels))

    def _pace(self, layers: Sequence[Layer]) -> tuple[float | None, float]:
        """Seconds for each joule, as lenders have them, and how far these are apart."""
        totals = [lender.fit.predict(layers).total for lender in self.lenders.each]
        paces = [
            math.log(total.time_s / total.energy_j)
            for total in totals
            if total.time_s is not None and total.time_s > 0 and total.energy_j > 0
        ]
        if not paces:
            return None, 0.0
        return math.exp(float(np.mean(paces))), _spread(np.array(paces))


def _spread(logs: Array) -> float:
    """The standard deviation of logarithms of devices, of which few are known."""
    squares = USUAL * LEVEL**2 + float(np.square(logs - logs.mean()).sum())
    return math.sqrt(squares / (USUAL + len(logs) - 1))


def _deviation(lent: Lent, share: Array) -> float:
    """The standard deviation of the logarithm of a sum of layers, but for the device's level."""
    apart = share @ lent.apart
    return math.sqrt(float(apart @ apart) + OWN**2)
