"""Coverage by thirds of size, and the interval score, as tables of several benchmarks have them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ampere_paper.published.answers import Answer
from ampere_paper.published.scores import THIRDS, interval_score

Interval = tuple[float, float]


def is_inside(interval: Interval, truth_j: float) -> bool:
    return interval[0] <= truth_j <= interval[1]


def inside_by_thirds(intervals: Sequence[Interval], truth: Sequence[float]) -> list[float]:
    """Which shares of the small, the middle and the large third lie inside their intervals."""
    order = sorted(range(len(truth)), key=truth.__getitem__)
    parts = [
        order[len(order) * i // THIRDS : len(order) * (i + 1) // THIRDS] for i in range(THIRDS)
    ]
    return [fmean(is_inside(intervals[i], truth[i]) for i in part) for part in parts if part]


def mean_score(intervals: Sequence[Interval], truth: Sequence[float]) -> float:
    """The mean interval score in log joules: width, and 20 times what is missed by."""
    answers = [Answer(energy_j=low, low_j=low, high_j=high) for low, high in intervals]
    return fmean(interval_score(a, truth_j) for a, truth_j in zip(answers, truth, strict=True))


def in_thirds(shares: Sequence[float]) -> str:
    """`86 / 87 / 88`, in percent."""
    return " / ".join(f"{100 * share:.0f}" for share in shares) or "–"
