"""Reference: the scale of a device, what it takes with nothing to do and with a fixed workload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ampere.core.workloads import IDLE, IDLE_STEP_S, REFERENCE, Workload
from ampere.devices.base import Burst, Device, Loaded
from ampere.errors import MeasurementFailed, MeterError
from ampere.records.steady import steady
from ampere.sittings.bursts import take_burst, try_burst, warm_up
from ampere.sittings.effort import MOST_S, Effort, suited
from ampere.sittings.limit import Limit
from ampere.sittings.quiet import Guard

REFERENCE_WARMUP_S = 0.075  # it is small, and soon warm


@dataclass(frozen=True)
class Reference:
    """What the device does with nothing to do, and with the reference workload."""

    idle_w: float
    time_s: float
    energy_j: float


def take_reference(
    device: Device, effort: Effort | None = None, limit: Limit | None = None
) -> Reference:
    """Meter the idle device and the reference workload: the scale of everything that follows.

    Raises:
        Busy: Other work kept the device busy: a scale that was made meanwhile would be wrong.
    """
    wanted = effort or Effort()
    guard = Guard(device, wanted, limit)
    idle_w = idle_power(device, guard)
    effort = suited(wanted, device.resolution, idle_w)
    # Many short ones see more of the machine's moods; long ones have seen them already.
    rounds = effort.max_rounds if effort is wanted else effort.min_rounds
    with loaded(device, REFERENCE) as reference:
        handle = reference.handle
        steps = warm_up(device, handle, effort.burst_s, REFERENCE_WARMUP_S)
        bursts: list[Burst] = []
        while len(bursts) < rounds:
            bursts.append(take_burst(device, handle, steps)[0])
            if disturbed := guard.disturbed(bursts[-1:]):
                del bursts[-disturbed:]
                guard.wait()
    seconds = [burst.time_s / burst.steps for burst in bursts]
    joules = [burst.energy_j / burst.steps for burst in bursts]
    return Reference(
        idle_w=idle_w,
        time_s=float(steady(seconds, seconds).mean()),
        energy_j=float(steady(joules, seconds).mean()),
    )


def idle_power(device: Device, guard: Guard) -> float:
    """Watts of the device with nothing to do, watched for as long as the meter needs."""
    steps = 20
    with loaded(device, IDLE) as idle:
        while steps * IDLE_STEP_S < MOST_S:
            rest = try_burst(device, idle.handle, steps)
            if rest.burst is not None:
                if guard.disturbed([rest.burst]):
                    guard.wait()
                    continue
                power_w = rest.burst.energy_j / rest.time_s
                if rest.time_s >= 0.99 * device.resolution.window_s(power_w, 0.1):
                    return power_w
            steps *= 4
    raise MeterError("the meter does not move while the device is idle: choose another one")


@contextmanager
def loaded(device: Device, workload: Workload) -> Iterator[Loaded]:
    """A workload for a while; it is forgotten whatever happens."""
    made = device.load(workload)
    try:
        yield made
    finally:
        with suppress(MeasurementFailed):  # the worker went, and the workload with it
            device.unload(made.handle)
