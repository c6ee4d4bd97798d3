"""Repeat error with and without interleaving, on this machine as it is and with a drift put on top.

    python benchmarks/drift.py                # about 6 minutes

Four networks are metered again and again, each time in two ways that take the same number of
bursts: one after the other, all bursts of a network in a row, averaged as they are; and interleaved
as ampere does it, each round corrected by what the workloads have in common, on the scale of the
reference. The bursts that the reference takes are given to the other way as well. The repeat error
is how far the results of one way are from each other, pair by pair. Both ways alternate. `drift`
multiplies what the meter says by a wave of ±15 % in time, the same for everything: a phone that
warms up, or a busy neighbour. `calm` is a simulated device with noise and without any drift.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from machine import RESULTS, machine_line, write_section

import ampere
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Burst, Device, Loaded
from ampere.pytorch.models import read
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure
from ampere.sittings.reference import Reference, take_reference

MODELS = (
    "zoo:lenet5",
    "zoo:cnn5(channels=[8, 16, 32, 32])",
    "zoo:har(channels=[16, 32, 32], hidden=[64])",
    "zoo:lstm(embedding=32, hidden=48)",
)
ROUNDS = 12
EFFORT = Effort(min_rounds=ROUNDS, max_rounds=ROUNDS)
SPREADS = (0.02, 0.05)  # noise of single bursts on the calm device


@dataclass
class Drifting:
    """A device whose readings a drift multiplies."""

    device: Device
    factor: Callable[[float], float]

    def __getattr__(self, name: str) -> object:
        return getattr(self.device, name)

    def burst(self, handle: int, steps: int) -> Burst:
        """What the device says, times the drift of the moment."""
        metered = self.device.burst(handle, steps)
        factor = self.factor(time.monotonic())
        return Burst(metered.steps, factor * metered.energy_j, factor * metered.time_s)


@dataclass
class Calm:
    """A device without drift: every workload costs 1 J and 1 s a step, with noise."""

    noise: float
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    fingerprint: object = field(default_factory=lambda: ampere.LocalDevice().fingerprint)
    provenance: ampere.Provenance = ampere.Provenance.SIMULATED
    handles: itertools.count[int] = field(default_factory=itertools.count)

    def load(self, workload: Workload) -> Loaded:
        """Any workload will do."""
        return Loaded(next(self.handles))

    def unload(self, handle: int) -> None:
        """Nothing is held."""

    def burst(self, handle: int, steps: int) -> Burst:
        """The same cost each time, but for noise."""
        factor = math.exp(self.rng.gauss(0.0, self.noise))
        return Burst(steps, steps * factor, steps * factor * 0.03)


def in_a_row(device: Device, workloads: Sequence[Workload]) -> list[float]:
    """All bursts of a workload one after the other, as many in all as interleaving takes."""
    share = (ROUNDS + 1) / len(workloads)  # the reference's bursts, divided up
    joules = []
    for workload in workloads:
        handle = device.load(workload).handle
        device.burst(handle, 1)
        first = device.burst(handle, 2)
        steps = max(1, round(EFFORT.burst_s / (first.time_s / first.steps)))
        device.burst(handle, max(1, round(EFFORT.warmup_s / EFFORT.burst_s)) * steps)
        bursts = [device.burst(handle, steps) for _ in range(ROUNDS + round(share))]
        device.unload(handle)
        joules.append(statistics.fmean(b.energy_j / b.steps for b in bursts))
    return joules


def interleaved(
    device: Device, workloads: Sequence[Workload], layers: Sequence[object], nominal: Reference
) -> list[float]:
    """As ampere measures."""
    work = list(zip(workloads, layers, strict=True))
    return [row.energy_j for row in measure(device, work, nominal, EFFORT)]  # type: ignore[arg-type]


def repeat_error(results: Sequence[Sequence[float]]) -> float:
    """Mean absolute difference of two repeats, relative to their mean."""
    return statistics.fmean(
        2 * abs(a - b) / (a + b)
        for series in zip(*results, strict=True)
        for a, b in itertools.combinations(series, 2)
    )


def compare(device: Device, repeats: int) -> tuple[float, float]:
    """Repeat errors in a row and interleaved, both ways alternating."""
    workloads = [Workload(model=ModelSpec(model)) for model in MODELS]
    layers = [read(model) for model in MODELS]
    nominal = take_reference(device)
    plain, corrected = [], []
    for i in range(repeats):
        plain.append(in_a_row(device, workloads))
        corrected.append(interleaved(device, workloads, layers, nominal))
        sys.stderr.write(f"\r{i + 1}/{repeats} ")
    sys.stderr.write("\n")
    return repeat_error(plain), repeat_error(corrected)


def main() -> None:
    """Run all, print the table and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    rows: list[tuple[str, float, float]] = []
    for spread in SPREADS:
        rows.append((f"calm, bursts ±{spread:.0%} (simulated)", *compare(Calm(spread), 200)))  # type: ignore[arg-type]
    with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
        rows.append(("this machine as it is", *compare(device, options.repeats)))

        def wave(now: float) -> float:
            return 1 + 0.15 * math.sin(2 * math.pi * now / 47.0)

        drifting = Drifting(device, wave)
        rows.append(("with a drift of ±15 % on top", *compare(drifting, options.repeats)))  # type: ignore[arg-type]
        identity = device.fingerprint.identity
    settings = {key: identity[key] for key in ("threads", "framework")}
    text = [f"Machine: {machine_line(settings)}", ""]
    text += [
        "| machine | repeat error, in a row | interleaved and corrected | ratio |",
        "|---|---|---|---|",
    ]
    text += [f"| {name} | {a:.1%} | {b:.1%} | {b / a:.2f} |" for name, a, b in rows]
    print("\n".join(text))
    write_section("measuring.md", "drift", "\n".join(text))
    (RESULTS / "drift.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
