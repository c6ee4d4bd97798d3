"""Drift: what a machine's pace does to a workload, as far as the reference is known to tell it.

    log value of a round  =  log cost  +  share × log(reference of the round / nominal)  +  noise

The reference is a witness. A machine that warms up slows everything alike, and then the share is 1;
on a calm machine, or for a workload that its moods do not reach, what the reference does is its own
affair, and dividing by it would only add its noise. So the share is learned, by regression over all
moments at which both were seen: the rounds of every row, and the sittings of networks that were
measured more than once. It is 0 until it is shown not to be chance, and for each workload no more
than its own bursts allow. The reference's deviation counts up to ±30 %; beyond that nobody knows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ampere.core.arrays import Array
from ampere.core.workloads import workload_identity
from ampere.records.measurement import Measurement

Quantity = Literal["energy_j", "time_s"]
BOUND = math.log(1.3)  # of what the reference may say
FEW = 4  # rounds, below which nothing can be told
FAR = 3.5  # robust standard deviations at which a value counts no more than one there
SURE = 2.0  # standard errors that the share must be away from 0
SITTING_STD = 0.01  # what a sitting adds to any workload of its own: where its memory lies, say


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
    def share(self) -> float:
        """How much of the reference's deviation a workload shares: 0 unless it is no chance."""
        if self.xy <= 0 or self.xx <= 0:
            return 0.0
        sure = self.xy / math.sqrt(self.xx)  # in standard errors
        true = max(self.xx - self.noise, self.xx / 2)  # noise of the witness hides half at most
        return min(self.xy / true, 1.0) * max(0.0, 1 - (SURE / sure) ** 2)

    @property
    def most(self) -> float:
        """The largest share that these moments allow."""
        if self.xx <= 0:
            return 1.0
        return max(0.0, (self.xy + SURE * math.sqrt(self.xx)) / self.xx)


def of_rounds(own: Sequence[float], reference: Sequence[float]) -> Evidence:
    """What the rounds of one workload tell; the reference's are means of two neighbours each."""
    if len(own) < FEW:
        return Evidence()
    y, x = clipped(np.log(own)), clipped(np.log(reference))
    # What changes from one round to the next is noise. Neighbours' means share a burst of two.
    x_var, y_var = (float(np.square(np.diff(each)).mean()) for each in (x, y))
    return _evidence(x, y, x_var, y_var / 2)


@dataclass
class Following:
    """How workloads have followed the reference so far, in joules or in seconds."""

    quantity: Quantity
    known: Evidence = field(default_factory=Evidence)

    @classmethod
    def of(cls, rows: Iterable[Measurement], quantity: Quantity) -> Following:
        """What the rows of a journal tell, those without the reference's bursts nothing."""
        known = Evidence()
        sittings: defaultdict[object, list[tuple[float, float, float, float]]] = defaultdict(list)
        for row in rows:
            own = _column(row, quantity)
            reference = _column(row, f"reference_{quantity}")
            if len(own) != len(reference) or len(own) < FEW or not row.sitting:
                continue
            known += of_rounds(own, reference)
            key = row.device, workload_identity(row.stage, row.layers)
            sittings[key].append(_moment(own, reference))
        for moments in sittings.values():
            if len(moments) > 1:
                x, y, x_var, y_var = np.array(moments).T
                known += _evidence(x, y, float(x_var.mean()), float(y_var.mean()))
        return cls(quantity, known)

    def factors(
        self,
        own: Sequence[float],
        reference: Sequence[float],
        nominal: float,
        beside: Evidence = Evidence(),
    ) -> list[float]:
        """What to divide each of a workload's values by.

        Args:
            own: Cost per step in each round.
            reference: The same of the reference workload around it.
            nominal: What the reference cost when the scale was made.
            beside: What the rounds of the workloads beside it tell, its own among them.
        """
        share = min((self.known + beside).share, of_rounds(own, reference).most)
        deviation = np.log(np.asarray(reference, float) / nominal)
        return [float(factor) for factor in np.exp(share * np.clip(deviation, -BOUND, BOUND))]


def clipped(values: Array) -> Array:
    """Values that lie far from the others, pulled to where far begins."""
    middle = float(np.median(values))
    limit = FAR * float(np.median(np.abs(values - middle))) / 0.6745
    return np.clip(values, middle - limit, middle + limit) if limit > 0 else np.asarray(values)


def _evidence(x: Array, y: Array, x_var: float, y_var: float) -> Evidence:
    x, y = x - x.mean(), y - y.mean()
    y_var = max(y_var, 1e-12)  # a device without any noise
    noise = (len(x) - 1) * x_var / y_var
    return Evidence(float(x @ x) / y_var, float(x @ y) / y_var, noise)


def _moment(own: Sequence[float], reference: Sequence[float]) -> tuple[float, float, float, float]:
    """A sitting as one moment: the logarithms of reference and workload, and their variances."""
    x, y = clipped(np.log(reference)), clipped(np.log(own))
    of_sitting = SITTING_STD**2
    x_var, y_var = float(x.var(ddof=1)) / len(x), float(y.var(ddof=1)) / len(y)
    return float(x.mean()), float(y.mean()), x_var + of_sitting, y_var + of_sitting


def _column(row: Measurement, name: str) -> list[float]:
    values = row.bursts.get(name) or []
    good = [value for value in values if isinstance(value, (int, float)) and value > 0]
    return good if len(good) == len(values) else []
