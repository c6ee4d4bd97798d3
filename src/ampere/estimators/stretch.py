"""Stretch: how much wider intervals must be than a fit tells, as rows that are left out show.

Coefficients and hyper-parameters are the likeliest of the very rows that they explain, so a fit
takes networks that it has not seen for better known than they are. Rows that are left out are such
networks: a fifth at a time, all the others are fitted anew, hyper-parameters too, and what they
tell of the fifth is compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ampere.estimators.base import Fit
from ampere.estimators.rejection import CONTRADICTS, surprise
from ampere.records.measurement import Measurement

LEAST = 3  # rows, of which two can be fitted without the third
PARTS = 5  # of the rows, one of which is left out at a time
MOST = 200  # rows that are looked at
TOLD = 40  # rows that were left out, after which no other part is
BELIEVED = 10  # rows that what a fit tells counts as: a few that are far off may be so by chance

Refit = Callable[[Sequence[Measurement]], Fit]


def stretch_of(rows: Sequence[Measurement], refit: Refit) -> float:
    """By how much deviations of networks that were not seen exceed those that are told of them.

    At least 1: rows of one sitting share its mood, and seem to foretell each other too well.

    Args:
        rows: What was fitted.
        refit: Fits some of them in the same way.
    """
    off = np.array([*_surprises(rows, refit)])
    off = np.minimum(np.abs(off), CONTRADICTS)
    return max(1.0, math.sqrt((BELIEVED + float(off @ off)) / (BELIEVED + len(off))))


def _surprises(rows: Sequence[Measurement], refit: Refit) -> Iterator[float]:
    """How far rows are from what others tell of them, in standard deviations."""
    if len(rows) < LEAST:
        return
    chosen = np.random.default_rng(0).permutation(len(rows))[:MOST]
    parts, told = min(PARTS, len(chosen)), 0
    for number in range(parts):
        if told >= TOLD:
            return
        left_out = chosen[number::parts]
        fit = refit([rows[i] for i in np.sort(np.setdiff1d(chosen, left_out))])
        found = [surprise(rows[i], fit) for i in left_out]
        told += len(found)
        yield from (each for each in found if each is not None)
