"""Loading: batches of a user's own data loader, drawn under a device's meter.

    idle     first, while no worker runs
    warm up  workers start, and their queues fill
    bursts   one right after the other: a pause would let workers load ahead, unmetered

Batches are drawn as fast as they come and go nowhere, so seconds are those of loading alone.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from ampere.core.workloads import LOADING, Workload
from ampere.devices.base import Burst, Device
from ampere.sittings.bursts import take_burst, warm_up
from ampere.sittings.effort import Effort, suited
from ampere.sittings.limit import Limit
from ampere.sittings.quiet import Guard
from ampere.sittings.reference import idle_power, loaded

BURSTS = Effort(burst_s=0.5, warmup_s=1.5, min_rounds=6, max_rounds=15, target=0.02)


@dataclass(frozen=True)
class LoaderBursts:
    """What drawing batches took: joules and seconds of one, from so many bursts.

    `spread` is the relative standard deviation of their joules, `busy` the share of the cores that
    others had meanwhile, where that was accepted.
    """

    energy_j: float
    time_s: float
    idle_w: float
    spread: float
    repeats: int
    batches: int  # that were drawn in all bursts
    workers: int
    samples: int | None = None
    busy: float = 0.0


def measure_loader(
    device: Device, loader: str, effort: Effort | None = None, limit: Limit | None = None
) -> LoaderBursts:
    """Draw batches from the loader that a text names, until they repeat well enough.

    Raises:
        ModelError: The loader cannot be made, raises, or yields nothing.
        Busy: Other work kept the device busy.
    """
    wanted = _longer(effort)
    guard = Guard(device, wanted, limit)
    idle_w = idle_power(device, guard)
    wanted = suited(wanted, device.resolution, idle_w)
    with loaded(device, Workload(stage=LOADING, loader=loader)) as made:
        steps = warm_up(device, made.handle, wanted.burst_s, wanted.warmup_s)
        bursts: list[Burst] = []
        while not _settled(bursts, wanted):
            bursts.append(take_burst(device, made.handle, steps)[0])
            if disturbed := guard.disturbed(bursts[-1:]):
                del bursts[-disturbed:]
                guard.wait()
                take_burst(device, made.handle, steps)  # workers have loaded ahead meanwhile
    energies = [burst.energy_j / burst.steps for burst in bursts]
    load = guard.load(bursts)
    return LoaderBursts(
        energy_j=statistics.fmean(energies),
        time_s=statistics.fmean(burst.time_s / burst.steps for burst in bursts),
        idle_w=idle_w,
        spread=_spread(energies),
        repeats=len(bursts),
        batches=sum(burst.steps for burst in bursts),
        workers=made.workers,
        samples=made.samples,
        busy=load.others + load.stolen if load.is_busy else 0.0,
    )


def _longer(effort: Effort | None) -> Effort:
    """Bursts of a loader are longer: it has moods of its own, and workers at its ends."""
    if effort is None:
        return BURSTS
    return replace(
        effort,
        burst_s=max(effort.burst_s, BURSTS.burst_s),
        warmup_s=max(effort.warmup_s, BURSTS.warmup_s),
        min_rounds=min(effort.min_rounds, BURSTS.min_rounds),
        target=max(effort.target, BURSTS.target),
    )


def _settled(bursts: list[Burst], effort: Effort) -> bool:
    if len(bursts) < effort.min_rounds:
        return False
    error = _spread([burst.energy_j / burst.steps for burst in bursts]) / math.sqrt(len(bursts))
    return error <= effort.target or len(bursts) >= effort.max_rounds


def _spread(energies: list[float]) -> float:
    return statistics.stdev(energies) / statistics.fmean(energies) if len(energies) > 1 else 0.0
