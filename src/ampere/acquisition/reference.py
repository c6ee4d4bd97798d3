"""Reference: the scale of a device, what it takes with nothing to do and with a fixed workload."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from ampere.acquisition.bursts import take_burst, try_burst, warm_up
from ampere.acquisition.effort import MOST_S, Effort, suited
from ampere.core.workloads import IDLE, IDLE_STEP_S, REFERENCE
from ampere.devices.base import Device
from ampere.errors import MeterError


@dataclass(frozen=True)
class Reference:
    """What the device does with nothing to do, and with the reference workload."""

    idle_w: float
    time_s: float
    energy_j: float


def take_reference(device: Device, effort: Effort | None = None) -> Reference:
    """Meter the idle device and the reference workload: the scale of everything that follows."""
    wanted = effort or Effort()
    idle_w = _idle_power(device)
    effort = suited(wanted, device.resolution, idle_w)
    reference = device.load(REFERENCE)
    steps = warm_up(device, reference.handle, effort.burst_s, effort.warmup_s)
    # Many short ones see more of the machine's moods; long ones have seen them already.
    rounds = 2 * effort.max_rounds if effort is wanted else effort.min_rounds
    bursts = [take_burst(device, reference.handle, steps)[0] for _ in range(rounds)]
    device.unload(reference.handle)
    return Reference(
        idle_w=idle_w,
        time_s=statistics.median(burst.time_s / burst.steps for burst in bursts),
        energy_j=statistics.median(burst.energy_j / burst.steps for burst in bursts),
    )


def _idle_power(device: Device) -> float:
    """Watts of the device with nothing to do, watched for as long as the meter needs."""
    idle = device.load(IDLE)
    steps = 50
    while steps * IDLE_STEP_S < MOST_S:
        rest = try_burst(device, idle.handle, steps)
        if rest.energy_j is not None:
            power_w = rest.energy_j / rest.time_s
            if rest.time_s >= 0.99 * device.resolution.window_s(power_w, 0.1):
                device.unload(idle.handle)
                return power_w
        steps *= 4
    raise MeterError("the meter does not move while the device is idle: choose another one")
