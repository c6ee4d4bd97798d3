"""Drift: what a machine's pace does to a workload, as far as the reference is known to tell it.

    log value  =  log own  −  share × trust × log(reference / nominal)

    own        of its bursts in a sitting, those that stumbled pulled back
    reference  the same of the reference's bursts around them
    nominal    what the reference took when the scale was made: the scale of the journal

The reference is a witness, not a judge. A machine that warms up, whose clock falls or whose
neighbours take its caches slows everything that it trains, but not all of it alike: of what the
reference had moved from one sitting to the next, networks shared some three quarters here, in most
families, runtimes and hours (benchmarks/sharing.py). That is expected of any, and how far a
network's own sittings lie from it is learned where it was measured more than once; what those show
counts for the others, too. What lies within the reference's own noise is chance, and is not
trusted, and beyond a factor of 1.6 nobody knows.

What bursts of one sitting have in common says little of it: noise of single bursts is most of what
is to be seen there, and hides the share.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.workloads import WorkloadIdentity, workload_identity
from ampere.records.measurement import Measurement
from ampere.records.steady import FEW, clipped, steady

Quantity = Literal["energy_j", "time_s"]
Moment = tuple[float, float, float, float]
BOUND = math.log(1.6)  # of what the reference may say
SHARE, SHARE_STD = 0.75, 0.25  # of the reference's deviation, in a network of which nobody knows
SITTING_STD = 0.02  # what a sitting adds to any workload of its own: where its memory lies, say
AFAR = math.log(1.3)  # off its pace by so much, the reference itself is doubtful


@dataclass(frozen=True)
class Series:
    """Bursts of a workload in a sitting, per step, and the reference's around each of them."""

    own: Sequence[float]
    own_s: Sequence[float]  # their seconds: own itself, if that is seconds
    reference: Sequence[float]
    reference_s: Sequence[float]

    @property
    def steady(self) -> Array:
        """The workload's own, those that stumbled pulled back."""
        return steady(self.own, self.own_s)

    @property
    def spread(self) -> float:
        """How far the workload's own scatter, relatively; what stumbled shows in it."""
        values = clipped(np.asarray(self.own, float))
        return float(values.std(ddof=1) / values.mean()) if len(values) > 1 else 0.0

    @property
    def level(self) -> float:
        """What the reference came to, those of its bursts that stumbled pulled back."""
        return float(steady(self.reference, self.reference_s).mean())

    @property
    def moment(self) -> Moment:
        """The sitting as one moment: logarithms of reference and workload, and their variances."""
        own, reference = self.steady, steady(self.reference, self.reference_s)
        own_var, reference_var = (
            float(np.log(each).var(ddof=1)) / len(each) + SITTING_STD**2
            for each in (own, reference)
        )
        return math.log(reference.mean()), math.log(own.mean()), reference_var, own_var


@dataclass(frozen=True)
class Evidence:
    """Of sittings of one workload: how far it followed the reference, and how much that says."""

    share: float = SHARE
    precision: float = 0.0

    @classmethod
    def of(cls, moments: Sequence[Moment]) -> Evidence:
        """By regression over its sittings, whose noise in the reference hides some of the share."""
        x, y, x_var, y_var = np.array(moments).T
        x, y = x - x.mean(), y - y.mean()
        noise = max(float(y_var.mean()), 1e-12)  # a device without any
        scatter = float(x @ x)
        true = max(scatter - (len(x) - 1) * float(x_var.mean()), scatter / 2)
        if true <= 0:
            return cls()
        return cls(float(x @ y) / true, true / noise)

    def after(self, expected: float) -> float:
        """The share, where so much was expected of it before its sittings were seen."""
        weight = 1 / SHARE_STD**2
        share = (weight * expected + self.precision * self.share) / (weight + self.precision)
        return min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class Following:
    """How workloads followed the reference from sitting to sitting, in joules or in seconds."""

    quantity: Quantity
    repeated: Mapping[WorkloadIdentity, Evidence] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Measurement], quantity: Quantity) -> Following:
        """What the rows of a journal tell; those without the reference's bursts tell nothing."""
        of_workload: defaultdict[WorkloadIdentity, list[Moment]] = defaultdict(list)
        for row in rows:
            series = series_of(row, quantity)
            if series is not None:
                of_workload[workload_identity(row.stage, row.layers)].append(series.moment)
        repeated = {
            identity: Evidence.of(moments)
            for identity, moments in of_workload.items()
            if len(moments) > 1
        }
        return cls(quantity, repeated)

    @cached_property
    def expected(self) -> float:
        """The share of a workload that was not seen twice; others say it, as far as they agree."""
        told = [each for each in self.repeated.values() if each.precision > 0]
        weights = [1 / (1 / each.precision + SHARE_STD**2) for each in told]
        every = math.fsum(weights)
        if not every:
            return SHARE
        shown = math.fsum(w * each.share for w, each in zip(weights, told, strict=True)) / every
        return Evidence(shown, every).after(SHARE)

    def factor(self, stage: str, layers: Sequence[Layer], series: Series, nominal: float) -> float:
        """What to divide a workload's steady value of a sitting by, to have it on the scale.

        Args:
            stage: Of the workload.
            layers: Of the workload.
            series: Its bursts so far.
            nominal: What the reference cost when the scale was made.
        """
        if len(series.own) < 2:  # nobody knows its noise
            return 1.0
        share = self.repeated.get(workload_identity(stage, layers), Evidence()).after(self.expected)
        deviation = math.log(series.level / nominal)
        _, _, noise, _ = series.moment
        trust = deviation**2 / (deviation**2 + noise)
        return math.exp(share * trust * _bounded(deviation))


def _bounded(deviation: float) -> float:
    return min(max(deviation, -BOUND), BOUND)


def series_of(row: Measurement, quantity: Quantity) -> Series | None:
    """The bursts of a row, if it has those of the reference, too."""
    names = (quantity, "time_s", f"reference_{quantity}", "reference_time_s")
    columns = [row.bursts.get(name) or [] for name in names]
    good = all(isinstance(value, (int, float)) and value > 0 for each in columns for value in each)
    lengths = {len(column) for column in columns}
    if not row.sitting or not good or len(lengths) > 1 or min(lengths) < FEW:
        return None
    return Series(*columns)
