"""Assurance: how surely the joules of a queue stay below a limit.

    symbol   meaning                                           shape
    e        expected joules of the queue's jobs               (n,)
    F        deviations of their logarithms by shared causes   (n, causes)
    d        deviations of their own                           (n,)
    S        sum of e
    σ²       |e F|² + |e d|²: the variance of the sum
    z        standard deviations for the asked probability

Errors are those of a logarithm, as they are in an Estimate: what is expected is as likely too high
as too low, and an error up weighs more than the same one down. So the sum stays below
m S exp(z σ / S) with the probability of z, where log m is half of what errors have more by
themselves than together (their mean variance less that of the sum): 0 if they are all the same.

Without m that is convex in the queue and grows in proportion to it, so a tangent of it lies below
it everywhere: a plan that keeps the limit keeps the tangent's, which is linear.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from ampere.core.arrays import Array
from ampere.errors import DataError

MOST = 50.0  # of an exponent: beyond it nothing is known
SURE = 8.0  # standard deviations from which on it is certain


def reach_of(confidence: float) -> float:
    """Standard deviations to what is not exceeded with this probability.

    Raises:
        DataError: It is no probability that somebody may ask for.
    """
    if not 0.5 <= confidence < 1:
        raise DataError(f"a confidence of {confidence:g} cannot be: use 0.5 to 0.999, such as 0.9")
    return NormalDist().inv_cdf(confidence)


def deviation(energy_j: Array, shared: Array, own: Array) -> float:
    """The standard deviation of the sum."""
    together = energy_j @ shared
    alone = energy_j * own
    return math.sqrt(float(together @ together + alone @ alone))


def upper(total: float, std: float, reach: float) -> float:
    """What the sum stays below, apart from m."""
    return total * math.exp(min(reach * std / total, MOST)) if total > 0 else 0.0


def middle(variance: float, relative: float) -> float:
    """m: by how much the sum is more than the sum of what is expected.

    `variance` is the mean of those of the jobs, weighed by their joules.
    """
    return math.exp(min(max(0.0, variance - relative**2) / 2, MOST))


def probability(scale: float, relative: float) -> float:
    """The probability that a sum comes to at most so many times its middle."""
    if scale <= 0:
        return 0.0
    if relative == 0:
        return float(scale >= 1 - 1e-12)
    z = math.log(scale) / relative
    return 1.0 if z > SURE else 0.0 if z < -SURE else NormalDist().cdf(z)


def tangent(shares: Array, energy_j: Array, shared: Array, own: Array, reach: float) -> Array:
    """Weights w with w · x ≤ upper of the queue x for every x, and the same at these shares."""
    e = shares * energy_j
    total = float(e.sum())
    if total <= 0:  # of nobody's queue: what each would be by itself is no bound of their sum
        return energy_j
    std = deviation(e, shared, own)
    if std == 0:
        return energy_j
    along = energy_j * (shared @ (e @ shared)) + energy_j**2 * own**2 * shares
    ratio = min(reach * std / total, MOST)
    return np.asarray(math.exp(ratio) * ((1 - ratio) * energy_j + reach * along / std))
