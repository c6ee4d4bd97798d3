"""Intervals: how far off something may be whose mean and standard deviation are known.

low        mean             high          errors of a logarithm: as far down as up, by ratios
---|----------|----------------|------->    joules
"""

from __future__ import annotations

import math
from statistics import NormalDist

CONFIDENCE = 0.9
SYMMETRIC = ("paper",)  # methods whose errors are those of the joules themselves
MOST_REACH = 100.0  # of an interval in logarithms: beyond it nothing is known


def interval(mean: float, std: float, method: str = "additive") -> tuple[float, float]:
    """The 90 % interval of something that cannot be below 0.

    Errors are those of a logarithm, so it reaches further up than down; the paper's are not.
    """
    reach = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * std
    if method in SYMMETRIC or not mean > 0:
        low = mean - reach
        return (0.0 if low < 0 else low), mean + reach  # NaN stays NaN
    ratio = math.exp(min(reach / mean, MOST_REACH))
    return mean / ratio, mean * ratio


def bound(mean: float, std: float, confidence: float, method: str = "additive") -> float:
    """What is not exceeded with this probability, by the same errors as an interval's."""
    reach = NormalDist().inv_cdf(confidence) * std
    if method in SYMMETRIC:
        return max(mean + reach, 0.0)
    return mean * math.exp(max(-MOST_REACH, min(reach / mean, MOST_REACH)))


def probability_within(limit: float, mean: float, std: float, method: str = "additive") -> float:
    """The probability that something stays at or below a limit above 0."""
    if std == 0:
        return float(mean <= limit)
    ahead = limit - mean if method in SYMMETRIC else mean * math.log(limit / mean)
    return NormalDist().cdf(ahead / std)


def inflation(rows: int) -> float:
    """How much wider than a normal interval: the scale itself is known from so many rows only.

    Integrated over, it makes a Student distribution; this is the ratio of their 90 % intervals.
    """
    n = max(rows, 2)
    # Cornish and Fisher's expansion of the 95 % quantile, good to 1 % from n = 4 on.
    z = 1.6448536
    series = (z**2 + 1) / (4 * n) + (5 * z**4 + 16 * z**2 + 3) / (96 * n**2)
    return 1 + series
