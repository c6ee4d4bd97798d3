"""Run: one workload in hand, its bursts so far, and the measurement that they come to."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import repeat

from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.core.workloads import Workload
from ampere.devices.base import Burst, Device
from ampere.errors import MeasurementFailed, ModelError
from ampere.meters.base import Resolution
from ampere.meters.surroundings import Evidence
from ampere.records.failure import Failure
from ampere.records.measurement import REACH, Measurement, utc
from ampere.sittings.bursts import take_burst, warm_up
from ampere.sittings.drift import AFAR, Series
from ampere.sittings.effort import Effort
from ampere.sittings.quiet import Load, load_of
from ampere.sittings.reference import Reference

# Threads that wait for each other took up to a thousand times as long beside one busy loop, on as
# many cores as threads (benchmarks/measuring.py): nobody can tell by how much.
WAITING = 1e-3


@dataclass(frozen=True)
class Beat:
    """A burst, when it began on the device's clock, and the reference's bursts around it."""

    burst: Burst
    at: float
    before: Burst
    after: Burst

    @property
    def reference_energy_j(self) -> float:
        """Joules of a step of the reference around it."""
        return (self.before.energy_j + self.after.energy_j) / (self.before.steps + self.after.steps)

    @property
    def reference_time_s(self) -> float:
        """Seconds of a step of the reference around it."""
        return (self.before.time_s + self.after.time_s) / (self.before.steps + self.after.steps)


@dataclass(frozen=True)
class Drift:
    """What the joules and the seconds of a sitting are divided by."""

    energy: float = 1.0
    time: float = 1.0


@dataclass(frozen=True)
class Circumstances:
    """What all networks of a sitting have in common, as their rows state it."""

    sitting: str = ""
    device: str = ""  # its fingerprint's id
    whole_machine: bool = False  # whether the meter counts the joules of others, too
    threads: int = 1  # that a step wants
    retaken: int = 0  # rounds, since the device was disturbed
    clock_jumped_s: float = 0.0
    power_sources: tuple[str, ...] = ()


@dataclass
class Run:
    """One workload in hand: what has been seen of it so far."""

    workload: Workload
    layers: tuple[Layer, ...]
    handle: int | None = None
    steps: int = 1
    beats: list[Beat] = field(default_factory=list)
    failed: Failure | None = None
    faults: int = 0
    loading_s: float = 0.0
    cost_s: float = 0.0
    spent_s: float = 0.0  # of the device, by its own clock

    @property
    def joules(self) -> Series:
        """Joules per step of each burst as they were read, and the reference's around it."""
        return Series(
            [beat.burst.energy_j / beat.burst.steps for beat in self.beats],
            self.seconds.own,
            [beat.reference_energy_j for beat in self.beats],
            self.seconds.reference,
        )

    @property
    def seconds(self) -> Series:
        """Seconds per step of each burst as they were read, and the reference's around it."""
        own = [beat.burst.time_s / beat.burst.steps for beat in self.beats]
        reference = [beat.reference_time_s for beat in self.beats]
        return Series(own, own, reference, reference)

    def load(self, device: Device, effort: Effort) -> None:
        """Build the workload on the device, and warm it up."""
        self._charge(lambda: self._load(device, effort))
        self.loading_s = self.cost_s

    def burst(self, device: Device) -> tuple[Burst, float] | None:
        """One more burst, and when it began; None if it failed. It counts once it is added."""
        taken: list[tuple[Burst, float]] = []
        self._charge(lambda: taken.append(self._burst(device)))
        return taken[0] if taken else None

    def is_settled(self, target: float) -> bool:
        """Whether the standard errors of its joules and of its seconds are under the target."""
        return all(
            series.spread / math.sqrt(len(self.beats)) <= target
            for series in (self.joules, self.seconds)
        )

    def loads_beside(self, circumstances: Circumstances) -> tuple[Load, Load]:
        """What others had of the device while its bursts ran, and while the reference's did."""
        seen = partial(
            load_of, whole_machine=circumstances.whole_machine, threads=circumstances.threads
        )
        return seen([beat.burst for beat in self.beats]), seen([beat.after for beat in self.beats])

    def conclude(
        self,
        device: Device,
        drift: Drift,
        nominal: Reference,
        reference_s: float,
        circumstances: Circumstances = Circumstances(),
    ) -> Measurement:
        """What its bursts come to; `reference_s` is its share of the reference's seconds."""
        common = Measurement(
            self.layers,
            device=circumstances.device,
            provenance=device.provenance,
            when=utc(device.now()),
            stage=self.workload.stage,
            failed=self.failed,
            sitting=circumstances.sitting,
            # A simulated device spends seconds that nobody waits for.
            cost_s=round(max(self.cost_s, self.spent_s) + reference_s, 4),
        )
        if self.failed is not None:
            return common
        joules, seconds = self.joules, self.seconds
        energy_j = float(joules.steady.mean()) / drift.energy
        time_s = float(seconds.steady.mean()) / drift.time
        spread = max(joules.spread, _grain(device.resolution, self.steps, energy_j, time_s))
        return replace(
            common,
            energy_j_per_step=energy_j,
            time_s_per_step=time_s,
            idle_j_per_step=nominal.idle_w * time_s if nominal.idle_w else None,  # 0: unknown
            spread=spread,
            repeats=len(self.beats),
            doubt=self._doubt(energy_j, circumstances),
            bursts={
                "steps": self.steps,
                "loading_s": _short(self.loading_s),
                "at": [round(beat.at, 3) for beat in self.beats],
                "energy_j": _shortened(joules.own),
                "time_s": _shortened(seconds.own),
                "drift": [_short(drift.time)] * len(self.beats),
                "energy_drift": [_short(drift.energy)] * len(self.beats),
                "reference_energy_j": _shortened(joules.reference),
                "reference_time_s": _shortened(seconds.reference),
                "median_energy_j": _short(statistics.median(joules.own)),
                "median_time_s": _short(statistics.median(seconds.own)),
                **self._evidence(),
                **self._remarks(nominal, circumstances),
            },
        )

    def _doubt(self, energy_j: float, circumstances: Circumstances) -> float:
        """The relative error that work of others may have made, where it was accepted.

        Left alone, a step would have taken at most what the fastest took, and at least that less
        what sharing caches, memory and clocks may cost: half, with every core of others busy.
        """
        load, _ = self.loads_beside(circumstances)
        if not load.is_disturbing:
            return 0.0
        alone = (1 - min(load.others + load.stolen, 1.0) / 2) * (1 - min(load.absent, 0.99))
        if load.is_crowded:
            alone *= WAITING
        least_j = alone * min(self.joules.own)
        return max(math.log(energy_j / least_j), 0.0) / REACH

    def _remarks(self, nominal: Reference, circumstances: Circumstances) -> dict[str, Json]:
        """What a reader must know of these bursts; nothing where all was as it should be."""
        marks = []
        if self.loads_beside(circumstances)[0].is_disturbing:
            marks.append("busy")
        pace = self.seconds.level / nominal.time_s
        if abs(math.log(pace)) > AFAR:
            marks.append("pace")
        if circumstances.clock_jumped_s:
            marks.append("clock")
        if len(circumstances.power_sources) > 1:
            marks.append("power")
        return {
            **({"marks": marks} if marks else {}),
            **({"retaken": circumstances.retaken} if circumstances.retaken else {}),
            **({"faults": self.faults} if self.faults else {}),
        }

    def _evidence(self) -> dict[str, Json]:
        """What ran beside each burst, and on how many samples it rests; only what is told."""
        samples = [beat.burst.samples for beat in self.beats]
        columns: dict[str, Json] = {} if None in samples else {"samples": samples}
        told = [beat.burst.evidence for beat in self.beats]
        evidence = [each for each in told if each is not None]
        if len(evidence) < len(told):
            return columns
        columns["cores"] = evidence[-1].cores
        for each in fields(Evidence):
            values = [getattr(one, each.name) for one in evidence]
            if each.name != "cores" and None not in values:
                columns[each.name] = _shortened(values)
        return columns

    def _charge(self, action: Callable[[], None]) -> None:
        """Do something with this workload; if it fails, the workload has failed, nobody else."""
        start_s = time.monotonic()
        try:
            action()
        except (MeasurementFailed, ModelError) as error:  # it broke, or cannot be built
            self.failed = Failure.of(error)
        self.cost_s += time.monotonic() - start_s

    def _load(self, device: Device, effort: Effort) -> None:
        loaded = device.load(self.workload)
        self.handle = loaded.handle
        if loaded.features and not any(layer.features.to_json() for layer in self.layers):
            self.layers = tuple(
                replace(layer, features=features, work=work)
                for layer, features, work in zip(
                    self.layers, loaded.features, loaded.work or repeat(()), strict=False
                )
            )
        self.steps = warm_up(device, loaded.handle, effort.burst_s, effort.warmup_s)
        if effort.steps is not None:
            self.steps = effort.steps

    def _burst(self, device: Device) -> tuple[Burst, float]:
        if self.handle is None:
            raise MeasurementFailed("it was never loaded")
        burst, faults = take_burst(device, self.handle, self.steps)
        self.faults += faults
        self.spent_s += burst.time_s
        return burst, device.now() - burst.time_s


def _grain(resolution: Resolution, steps: int, energy_j: float, time_s: float) -> float:
    """Relative error of a burst from the meter's steps alone: equal counts are not certain ones.

    Both ends of a burst are off by up to a step or an update, evenly: √(2/12) of it together.
    """
    off_j = max(resolution.energy_j, resolution.period_s * energy_j / time_s)
    return math.sqrt(1 / 6) * off_j / (steps * energy_j)


def _shortened(values: Sequence[float]) -> list[float]:
    return [_short(value) for value in values]


def _short(value: float) -> float:
    return float(f"{value:.5g}")
