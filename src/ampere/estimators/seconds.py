"""Seconds, learned as seconds for each joule: a process whose mean is what another says of layers.

So lines of joules and of seconds divide a network alike, and imply watts that a device can draw.
Seconds have their own noise, their own drift and their own errors, since clocks are not meters: a
meter may be far coarser, or what else runs may cost time and hardly any joules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ampere.core.arrays import Array
from ampere.estimators.drift import seen_drift
from ampere.estimators.processes import sum_process
from ampere.estimators.processes.linear_mean import Layers
from ampere.estimators.processes.mode import Solution
from ampere.estimators.processes.sum_process import Assumed, SumProcess
from ampere.estimators.selection import arrays_of
from ampere.records.measurement import Measurement
from ampere.records.steady import FEW, clipped

# How far the watts of operations differ, and nothing else.
PER_JOULE = Assumed(coefficient=0.3, beyond=0.0, odd=0.0)


def with_seconds(rows: Sequence[Measurement]) -> list[Measurement]:
    """Rows whose seconds are known."""
    return [row for row in rows if row.time_s_per_step is not None]


def time_error(row: Measurement) -> float:
    """The relative standard error of a row's seconds, as far as its bursts show it."""
    told = row.bursts.get("time_s") or []
    values = [value for value in told if isinstance(value, (int, float)) and value > 0]
    if len(values) < FEW:
        return row.doubt
    kept = clipped(np.asarray(values, float))
    return math.hypot(float(kept.std(ddof=1) / kept.mean()) / math.sqrt(len(kept)), row.doubt)


def per_joule(layers: Layers, joules: Array) -> Layers:
    """Layers whose mean seconds are proportional to their joules, which are known of all."""
    return replace(
        layers,
        features=joules[:, None],
        unsized=np.zeros(len(layers), bool),
        lent=np.zeros((len(layers), 0)),
    )


def learn_seconds(
    rows: Sequence[Measurement],
    counts: Array,
    energy: SumProcess,
    drift: float,
    solution: Solution | None,
) -> SumProcess:
    """The process of the seconds of these rows; searched for, unless it was found before.

    Args:
        rows: All have seconds.
        counts: How many of the layers of `energy` each of them has.
        energy: What layers cost in joules; seconds are as much less sure than they believe.
        drift: What is usual of such a device.
        solution: What was found before.
    """
    known_std = np.array([time_error(row) for row in rows])
    seconds = replace(arrays_of(rows, counts, [row.time_s for row in rows]), known_std=known_std)
    encoded = per_joule(energy.layers, energy.costs(energy.layers))
    if solution is not None:
        return sum_process.condition(encoded, seconds, solution)
    assumed = replace(PER_JOULE, slow=seen_drift(rows, drift, "time_s"))
    found = sum_process.search(encoded, seconds, assumed)
    found = replace(found, stretch=energy.solution.stretch)
    return sum_process.condition(encoded, seconds, found)


def by_the_clock(
    energy: SumProcess,
    measurements: Sequence[Measurement],
    time: SumProcess | None,
    timed: Sequence[Measurement],
) -> SumProcess:
    """Joules of the rows with seconds, as sure as if they had been read as exactly as these.

    Seconds of layers are proportional to joules, so what rows leave open of these is open of
    seconds, too; but not the noise of a meter, since the clock looked at the same networks.
    """
    if time is None:
        return energy
    with_time = {id(row) for row in timed}
    chosen = [i for i, row in enumerate(measurements) if id(row) in with_time]
    return energy.as_exact_as(time, np.array(chosen, int))
