"""Effort: how long and how often a network is measured, as far as its meter needs it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ampere.errors import MeterError
from ampere.meters.base import Resolution

LONG_ROUNDS = 4  # of bursts that are long for the meter's sake
MOST_S = 1800.0  # of one network's bursts; nobody waits longer


@dataclass(frozen=True)
class Effort:
    """How much measuring: bursts of `burst_s`, until the standard error is under `target`.

    A device that is busy with other work is waited for, `patience_s` for each sitting; with
    `accept_busy` it is measured all the same, and what comes of it says so.
    """

    burst_s: float = 0.03
    warmup_s: float = 0.15
    min_rounds: int = 8
    max_rounds: int = 15  # twice as many repeat no better
    target: float = 0.015
    steps: int | None = None  # of a burst, where they are given and `burst_s` is not
    patience_s: float = 30.0
    accept_busy: bool = False


def suited(effort: Effort, resolution: Resolution, power_w: float) -> Effort:
    """Bursts that are long enough for what the meter can tell.

    Raises:
        MeterError: If they would take longer than anybody waits.
    """
    if resolution.window_s(power_w, effort.target * math.sqrt(effort.min_rounds)) <= effort.burst_s:
        return effort
    burst_s = resolution.window_s(power_w, effort.target * math.sqrt(LONG_ROUNDS))
    if LONG_ROUNDS * burst_s > MOST_S:
        raise MeterError(
            f"the meter tells steps of {resolution.energy_j:.3g} J every"
            f" {resolution.period_s:.3g} s: at {power_w:.3g} W, a network known to"
            f" {effort.target:.1%} would take"
            f" {LONG_ROUNDS * burst_s / 60:.0f} minutes; ask for less with --precision, or choose"
            " another meter"
        )
    return replace(
        effort,
        burst_s=max(burst_s, effort.burst_s),
        min_rounds=min(LONG_ROUNDS, effort.min_rounds),
        max_rounds=min(2 * LONG_ROUNDS, effort.max_rounds),
    )
