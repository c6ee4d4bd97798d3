"""Drift: what a machine's pace does to all workloads alike, from round to round.

    value of workload k in round r  =  its cost × common factor of the round × noise

The common factor is the median over all other workloads in hand, the reference among them: one that
stumbles does not pull it. How far it is divided out is what reduces the workload's own scatter: all
of it on a machine that drifts, nothing on a calm one, where it would only add noise. What is left,
the level of all rounds together, is the reference's, which keeps the scale across days; it too is
followed only as far as it is known to differ from what it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ampere.core.arrays import Array

FEW = 4  # rounds, below which nothing can be told of how far to follow
FAR = 3.5  # robust standard deviations at which a value counts no more than one there


def drift_factors(
    own: Sequence[float],
    others: Sequence[Sequence[float]],
    reference: Sequence[float],
    nominal: float,
) -> list[float]:
    """What to divide each of a workload's values by; all series are of the same rounds.

    Args:
        own: Cost per step in each round.
        others: The same of the other workloads in hand.
        reference: The same of the reference workload.
        nominal: What the reference cost when the scale was made.
    """
    levelled = [_levelled(series) for series in (*others, reference)]
    common = np.median(levelled, axis=0)
    followed = common * _share(_levelled(own), common)
    # The reference's own level, with the drift that the others show taken out of it likewise.
    without = np.median(levelled[:-1], axis=0) if others else np.zeros(len(common))
    raised = np.log(np.asarray(reference, float) / nominal)
    level = raised - without * _share(levelled[-1], without)
    return [float(value) for value in np.exp(followed + _shift(level))]


def _levelled(series: Sequence[float]) -> Array:
    """Logarithms around their median."""
    logs = np.log(np.asarray(series, float))
    return np.asarray(logs - np.median(logs))


def _share(series: Array, common: Array) -> float:
    """How much of the common factor to take out: least squares, between nothing and all.

    Shrunk by as much as it may be chance, as the ratio of explained to unexplained scatter tells.
    """
    if len(series) < FEW:
        return 1.0
    own, shared = _clipped(series), _clipped(common)
    power = float(shared @ shared)
    if power == 0.0:
        return 0.0
    slope = float(own @ shared) / power
    unexplained = float(np.square(own - slope * shared).sum()) / (len(own) - 2)
    chance = 2 * unexplained / (slope**2 * power) if slope > 0 else 1.0
    return min(max(slope * (1 - chance), 0.0), 1.0)


def _shift(level: Array) -> float:
    """The mean of the reference's rounds, shrunk by as much as it may be chance.

    A round's value is the mean of the bursts before and after it, so neighbours share one, and the
    mean of all is less sure than the scatter says: twice its variance. Twice that again is what
    keeps a calm machine's results from following mere chance.
    """
    middle = float(np.median(level))
    kept = _clipped(level - middle)
    mean = middle + float(kept.mean())
    if len(level) < FEW or mean == 0.0:
        return mean
    chance = float(kept.var(ddof=1)) / len(level)
    return mean * max(0.0, 1 - 4 * chance / mean**2)


def _clipped(values: Array) -> Array:
    limit = FAR * float(np.median(np.abs(values))) / 0.6745
    return np.clip(values, -limit, limit) if limit > 0 else values
