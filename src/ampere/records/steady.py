"""Steady: what bursts come to on a machine that stumbles now and then.

A neighbour on a shared machine, or something that wakes up, slows some bursts of a sitting and not
others, and how many changes from one sitting to the next: a mean of all would mostly repeat that.
So a burst that is far slower than the faster half of them counts as one that just is not, with its
joules in proportion. Bursts of a calm machine are not touched, and none is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ampere.core.arrays import Array

SLOWER = 0.1  # than the middle of the faster half: beyond that, a burst counts as one there
FEW = 4  # bursts, below which nobody knows which of them stumbled
FAR = 3.5  # robust standard deviations (Iglewicz and Hoaglin, 1993)


def steady(values: Sequence[float], times: Sequence[float]) -> Array:
    """Joules or seconds of bursts that took these times, those that stumbled pulled back."""
    paces, costs = np.asarray(times, float), np.asarray(values, float)
    if len(paces) < FEW:
        return costs
    faster = np.sort(paces)[: (len(paces) + 1) // 2]
    limit = (1 + SLOWER) * float(np.median(faster))
    pulled = costs * np.minimum(1.0, limit / paces)
    return clipped(pulled, SLOWER * float(np.median(pulled)))


def clipped(values: Array, near: float = 0.0) -> Array:
    """Values that lie far from the others, pulled to where far begins: meters stumble, too.

    What lies no further than `near` from the middle stays, however close the others are.
    """
    middle = float(np.median(values))
    limit = max(FAR * float(np.median(np.abs(values - middle))) / 0.6745, near)
    return np.clip(values, middle - limit, middle + limit) if limit > 0 else np.asarray(values)
