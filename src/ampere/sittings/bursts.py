"""Bursts: steps run on a device in one go, repeated where the meter said what cannot be true."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from ampere.devices.base import Burst, Device
from ampere.errors import MeterError, MeterFault

TRIES = 4  # of a burst whose reading cannot be true
CLOCKED_S = 2.0  # how long a burst must be, to be timed from here
MOST_STEPS = 1 << 20  # of a burst whose time nobody tells


@dataclass(frozen=True)
class Trial:
    """A burst of which only the time matters.

    Where the meter did not move there is no burst, and the seconds are those of our own clock.
    """

    steps: int
    time_s: float
    burst: Burst | None


def take_burst(device: Device, handle: int, steps: int) -> tuple[Burst, int]:
    """A burst, and how many were in vain because the meter said what cannot be true."""
    for faults in range(TRIES):
        try:
            return device.burst(handle, steps), faults
        except MeterFault as error:
            reason = str(error)
    raise MeterError(f"{reason} ({TRIES} times in a row)")


def try_burst(device: Device, handle: int, steps: int) -> Trial:
    """Run steps under a meter that may be too coarse for them."""
    start_s = time.monotonic()
    try:
        burst = device.burst(handle, steps)
    except MeterFault:
        return Trial(steps, max(time.monotonic() - start_s, 1e-9), None)
    return Trial(burst.steps, burst.time_s, burst)


def warm_up(device: Device, handle: int, burst_s: float, warmup_s: float) -> int:
    """Run until caches and memory pools have settled; returns the steps that fill a burst.

    Where the meter does not move in so few steps, the device does not tell their time either. Our
    own clock has the way to the device in it, so it goes on until that is a small part.
    """
    steps, spent_s, unsure = 1, 0.0, False
    device_pace_s = own_pace_s = math.inf  # seconds a step, by the device's clock and by ours
    try_burst(device, handle, 1)
    while spent_s < warmup_s or unsure:
        trial = try_burst(device, handle, steps)
        spent_s += trial.time_s
        if trial.burst is None:
            own_pace_s = min(own_pace_s, trial.time_s / trial.steps)
        else:
            device_pace_s = min(device_pace_s, trial.time_s / trial.steps)
        too_short = trial.time_s < min(CLOCKED_S, burst_s)
        unsure = math.isinf(device_pace_s) and too_short and steps < MOST_STEPS
        pace_s = own_pace_s if math.isinf(device_pace_s) else device_pace_s
        steps = max(1, min(2 * steps, round(burst_s / pace_s)))
    pace_s = own_pace_s if math.isinf(device_pace_s) else device_pace_s
    return max(1, round(burst_s / pace_s))
