"""Rejection: rows that cannot be true, because all the others contradict them.

A meter wraps around, a machine is busy for a minute: one such row would move the estimate of every
layer in it. What is far from the mean is a gross fault. What agrees badly with the others is a
suspect, and is judged by a fit without it: a suspect would excuse itself by much noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ampere.estimators.base import Cost, Fit
from ampere.estimators.encoding import STEP, Encoder
from ampere.estimators.processes.sum_process import SumProcess
from ampere.estimators.roofline import fit_mean
from ampere.records.measurement import Measurement

ENOUGH = 8  # rows, before one of them can be called wrong
SUSPECT = 3.0  # standard deviations from what all other rows say: worth a closer look
CONTRADICTS = 4.5  # standard deviations from what a fit without it says: left out
GROSS = math.log(20)  # the mean alone may be off by 6: what is further from it is a fault


def gross_faults(rows: Sequence[Measurement]) -> dict[int, str]:
    """Rows that are several times what their layers' features suggest: a meter wrapped around."""
    if len(rows) < ENOUGH:
        return {}
    joules = np.array([row.energy_j for row in rows])
    encoder = Encoder.of([STEP, *(layer for row in rows for layer in row.layers)])
    _, expected = fit_mean(rows, encoder, joules.tolist())
    off = np.log(joules / expected)
    off -= np.median(off)
    limit = max(GROSS, 6 * float(np.median(np.abs(off))) / 0.6745)
    faulty = np.flatnonzero(np.abs(off) > limit)
    if len(faulty) > len(rows) // 10 + 1:  # so many are no faults
        return {}
    return {
        i: f"{rows[i]!r} is {math.exp(off[i]):.2g} × what its size suggests"
        for i in map(int, faulty)
    }


def suspects(process: SumProcess) -> list[int]:
    """The few rows, if any, that agree worst with all others."""
    n = len(process.rows)
    if n < ENOUGH:
        return []
    surprise = np.abs(process.leave_one_out)
    worst = np.argsort(-surprise)[: n // 20 + 1]
    return [int(i) for i in worst if surprise[i] > SUSPECT]


def wrong_joules(row: Measurement, fit: Fit) -> str | None:
    """How a row contradicts a fit that does not know it; None if it does not."""
    cost = _expected(row, fit)
    if cost is None:
        return None
    ratio = _far(row.energy_j, row.error, cost.energy_j, cost.energy_j_std)
    return f"{row!r} is {ratio} what all other rows say" if ratio else None


def wrong_seconds(row: Measurement, fit: Fit) -> str | None:
    """The same of its seconds."""
    cost = _expected(row, fit)
    if cost is None or cost.time_s is None or cost.time_s_std is None:
        return None
    ratio = _far(row.time_s, row.error, cost.time_s, cost.time_s_std)
    return f"the seconds of {row!r} are {ratio} what all other rows say" if ratio else None


def _expected(row: Measurement, fit: Fit) -> Cost | None:
    """What a fit says of a row; nothing, if it cannot speak for all of its layers."""
    prediction = fit.predict(row.layers)
    return None if prediction.uncovered else prediction.total


def _far(value: float, error: float, expected: float, std: float) -> str | None:
    """How many times what was expected, if that is too far to be true."""
    reach = CONTRADICTS * math.hypot(std, error * expected)
    if not math.isfinite(expected) or abs(value - expected) <= reach:
        return None
    return f"{value / expected:.2g} ×" if expected > 0 else "far from"
