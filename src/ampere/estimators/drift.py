"""Drift that is to be expected of a device from one moment to the next, where rows cannot tell."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from ampere.core.fingerprint import Fingerprint, takes_all_cores
from ampere.records.measurement import Measurement
from ampere.sittings.drift import Quantity, series_of

STEADY, RESTLESS = 0.03, 0.12  # usual; where threads take all cores they wait for others
WITNESSES = 3.0  # sittings that what is usual counts as, where the reference was seen in some


def usual_drift(fingerprint: Fingerprint) -> float:
    """What drift is usual of a device, where rows of one moment cannot tell."""
    return RESTLESS if takes_all_cores(fingerprint) else STEADY


def seen_drift(rows: Sequence[Measurement], usual: float, quantity: Quantity = "energy_j") -> float:
    """What drift is to be expected of a device: as usual, and as the reference was seen to move.

    Rows of one minute share its mood, so they do not tell how far that is from the next one's. The
    reference does: it is the same network in every sitting.
    """
    levels = np.array(_levels_of(rows, quantity))
    if len(levels) < 2:
        return usual
    moved = float(np.square(levels - levels.mean()).sum())
    return math.sqrt((WITNESSES * usual**2 + moved) / (WITNESSES + len(levels) - 1))


def _levels_of(rows: Iterable[Measurement], quantity: Quantity) -> tuple[float, ...]:
    """What the reference came to in each sitting, in logarithms; as far as rows tell."""
    of_sitting: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        series = series_of(row, quantity)
        if series is not None:
            of_sitting[row.sitting].append(math.log(series.level))
    return tuple(map(fmean, of_sitting.values()))
