"""Drift: what a machine's pace does to a workload, as far as the reference is known to tell it.

    log value  =  (1 − share) × log steady  +  share × (log mean − log(reference / usual))

    steady   of its bursts, those that stumbled pulled back    mean   of its bursts as they are
    usual    what the reference takes: the mean over the sittings so far, the nominal among them

The reference is a witness. A machine that warms up slows everything alike, and then the share is 1;
on a calm machine, or for a workload that its moods do not reach, what the reference does is its own
affair, and dividing by it would only add its noise. So the share is learned (what stumbles together
is divided out, what stumbles alone is pulled back, and nothing is both), by regression over all
moments at which both were seen: the rounds of every row, and the sittings of networks that were
measured more than once. It is 0 until it is shown not to be chance, and for each workload no more
than its own bursts allow; a workload's own sittings outweigh those of others. The reference's
deviation counts up to ±30 %; beyond that nobody knows. It is counted from what is usual: the
nominal alone is one moment, and if that was a fast one, most others would lie beyond.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.workloads import WorkloadIdentity, workload_identity
from ampere.records.measurement import Measurement
from ampere.records.steady import FEW, clipped, settled, steady

Quantity = Literal["energy_j", "time_s"]
BOUND = math.log(1.3)  # of what the reference may say
SURE = 2.0  # standard errors that the share must be away from 0
SITTING_STD = 0.01  # what a sitting adds to any workload of its own: where its memory lies, say
OTHERS = 20.0  # evidence that what others show of the share counts as much as


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
    def mean(self) -> float:
        """What the workload came to with all that befell it."""
        return settled(self.own)

    @property
    def level(self) -> float:
        """What the reference came to with all that befell it."""
        return settled(self.reference)

    @property
    def rounds(self) -> Evidence:
        """What its rounds tell of how it follows the reference."""
        if len(self.own) < FEW:
            return Evidence()
        y, x = clipped(np.log(self.own)), clipped(np.log(self.reference))
        # What changes from one round to the next is noise. Neighbours' means share a burst of two.
        x_var, y_var = (float(np.square(np.diff(each)).mean()) for each in (x, y))
        return _evidence(x, y, x_var, y_var / 2)

    @property
    def moment(self) -> tuple[float, float, float, float]:
        """The sitting as one moment: logarithms of reference and workload, and their variances."""
        own, reference = self.steady, steady(self.reference, self.reference_s)
        own_var, reference_var = (
            float(np.log(each).var(ddof=1)) / len(each) + SITTING_STD**2
            for each in (own, reference)
        )
        return math.log(reference.mean()), math.log(own.mean()), reference_var, own_var


@dataclass(frozen=True)
class Evidence:
    """Sums over moments at which a workload and the reference were seen, in logarithms.

    Each moment counts by how sure the workload's value is: `xx` is the reference's scatter, `noise`
    the part of it that is its own noise, `xy` what both have in common.
    """

    xx: float = 0.0
    xy: float = 0.0
    noise: float = 0.0

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(self.xx + other.xx, self.xy + other.xy, self.noise + other.noise)

    @property
    def true(self) -> float:
        """The reference's scatter without its noise, which hides half of it at most."""
        return max(self.xx - self.noise, self.xx / 2)

    @property
    def share(self) -> float:
        """How much of the reference's deviation workloads share: 0 unless it is no chance."""
        sure = self.xy / math.sqrt(self.xx) if self.xx > 0 else 0.0  # in standard errors
        if sure <= SURE or self.true <= 0:  # a scatter too small to be halved
            return 0.0
        return min(self.xy / self.true, 1.0) * (1 - (SURE / sure) ** 2)

    @property
    def most(self) -> float:
        """The largest share that these moments allow."""
        if self.xx <= 0:
            return 1.0
        return max(0.0, (self.xy + SURE * math.sqrt(self.xx)) / self.xx)


@dataclass(frozen=True)
class Following:
    """How workloads have followed the reference so far, in joules or in seconds.

    `known` is what all rows together tell, `repeated` what each network's own sittings do, and
    `levels` what the reference came to in each sitting, in logarithms.
    """

    quantity: Quantity
    known: Evidence = Evidence()
    repeated: Mapping[WorkloadIdentity, Evidence] = field(default_factory=dict)
    levels: tuple[float, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Measurement], quantity: Quantity) -> Following:
        """What the rows of a journal tell; those without the reference's bursts tell nothing."""
        rows, known = list(rows), Evidence()
        of_workload: defaultdict[WorkloadIdentity, list[tuple[float, ...]]] = defaultdict(list)
        for row in rows:
            series = series_of(row, quantity)
            if series is not None:
                known += series.rounds
                of_workload[workload_identity(row.stage, row.layers)].append(series.moment)
        repeated = {}
        for identity, moments in of_workload.items():
            if len(moments) > 1:
                x, y, x_var, y_var = np.array(moments).T
                repeated[identity] = _evidence(x, y, float(x_var.mean()), float(y_var.mean()))
                known += repeated[identity]
        return cls(quantity, known, repeated, levels_of(rows, quantity))

    def factor(
        self,
        stage: str,
        layers: Sequence[Layer],
        series: Series,
        nominal: float,
        beside: Evidence = Evidence(),
    ) -> float:
        """What to divide a workload's steady value of this sitting by.

        Args:
            stage: Of the workload.
            layers: Of the workload.
            series: Its bursts so far.
            nominal: What the reference cost when the scale was made.
            beside: What the rounds of the sitting tell, this workload's among them.
        """
        share = min((self.known + beside).share, series.rounds.most)
        own = self.repeated.get(workload_identity(stage, layers), Evidence())
        share = (own.true * own.share + OTHERS * share) / (own.true + OTHERS)
        usual = fmean((math.log(nominal), *self.levels))
        deviation = _bounded(math.log(series.level) - usual)
        pulled_back = math.log(float(series.steady.mean()) / series.mean)
        return math.exp(_bounded(share * (pulled_back + deviation)))


def _bounded(deviation: float) -> float:
    return min(max(deviation, -BOUND), BOUND)


def levels_of(rows: Iterable[Measurement], quantity: Quantity) -> tuple[float, ...]:
    """What the reference came to in each sitting, in logarithms; as far as rows tell."""
    of_sitting: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        series = series_of(row, quantity)
        if series is not None:
            of_sitting[row.sitting].append(math.log(series.level))
    return tuple(map(fmean, of_sitting.values()))


def series_of(row: Measurement, quantity: Quantity) -> Series | None:
    """The bursts of a row, if it has those of the reference, too."""
    names = (quantity, "time_s", f"reference_{quantity}", "reference_time_s")
    columns = [row.bursts.get(name) or [] for name in names]
    good = all(isinstance(value, (int, float)) and value > 0 for each in columns for value in each)
    lengths = {len(column) for column in columns}
    if not row.sitting or not good or len(lengths) > 1 or min(lengths) < FEW:
        return None
    return Series(*columns)


def _evidence(x: Array, y: Array, x_var: float, y_var: float) -> Evidence:
    x, y = x - x.mean(), y - y.mean()
    y_var = max(y_var, 1e-12)  # a device without any noise
    noise = (len(x) - 1) * x_var / y_var
    return Evidence(float(x @ x) / y_var, float(x @ y) / y_var, noise)
