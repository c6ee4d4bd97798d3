"""Run: one workload in hand, its bursts so far, and the measurement that they come to."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ampere.acquisition.bursts import take_burst, warm_up
from ampere.acquisition.effort import Effort
from ampere.acquisition.reference import Reference
from ampere.core.layers import Layer
from ampere.core.workloads import Workload
from ampere.devices.base import Burst, Device
from ampere.errors import MeasurementFailed, ModelError
from ampere.meters.base import Resolution
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement, utc_now

OUTLIER = 3.5  # in robust standard deviations (Iglewicz and Hoaglin, 1993)


@dataclass(frozen=True)
class Drift:
    """What the joules and the seconds of each round are divided by."""

    energy: Sequence[float] = ()
    time: Sequence[float] = ()


@dataclass
class Run:
    """One workload in hand: what has been seen of it so far."""

    workload: Workload
    layers: tuple[Layer, ...]
    handle: int | None = None
    steps: int = 1
    bursts: list[Burst] = field(default_factory=list)
    began_at: list[float] = field(default_factory=list)  # of each burst, in seconds since 1970
    failed: Failure | None = None
    faults: int = 0
    cost_s: float = 0.0

    @property
    def energies_j(self) -> list[float]:
        """Joules per step of each burst, as they were read."""
        return [burst.energy_j / burst.steps for burst in self.bursts]

    @property
    def times_s(self) -> list[float]:
        """Seconds per step of each burst, as they were read."""
        return [burst.time_s / burst.steps for burst in self.bursts]

    def load(self, device: Device, effort: Effort) -> None:
        """Build the workload on the device, and warm it up."""
        self._charge(lambda: self._load(device, effort))

    def burst(self, device: Device) -> None:
        """Add a burst."""
        self._charge(lambda: self._burst(device))

    def is_settled(self, drift: Drift, target: float) -> bool:
        """Whether the standard errors of its joules and of its seconds are under the target."""
        corrected = self._corrected(drift)
        outlier = _outliers(*corrected)
        for values in corrected:
            kept = [value for value, out in zip(values, outlier, strict=True) if not out]
            if _relative_std(kept) / math.sqrt(len(kept)) > target:
                return False
        return True

    def conclude(
        self, device: Device, drift: Drift, nominal: Reference, reference_s: float
    ) -> Measurement:
        """What its bursts come to; `reference_s` is its share of the reference's seconds."""
        # A simulated device spends seconds that nobody waits for.
        spent_s = max(self.cost_s, sum(burst.time_s for burst in self.bursts))
        common = Measurement(
            self.layers,
            device=device.fingerprint.id,
            provenance=device.provenance,
            when=utc_now(),
            stage=self.workload.stage,
            failed=self.failed,
            cost_s=round(spent_s + reference_s, 4),
        )
        if self.failed is not None:
            return common
        energies_j, times_s = self._corrected(drift)
        outlier = _outliers(energies_j, times_s)
        kept_j = [value for value, out in zip(energies_j, outlier, strict=True) if not out]
        kept_s = [value for value, out in zip(times_s, outlier, strict=True) if not out]
        energy_j, time_s = statistics.fmean(kept_j), statistics.fmean(kept_s)
        return replace(
            common,
            energy_j_per_step=energy_j,
            time_s_per_step=time_s,
            idle_j_per_step=nominal.idle_w * time_s if nominal.idle_w else None,  # 0: unknown
            spread=max(
                _relative_std(kept_j), _grain(device.resolution, self.steps, energy_j, time_s)
            ),
            repeats=len(kept_j),
            bursts={
                "steps": self.steps,
                "at": [round(moment, 3) for moment in self.began_at],
                "energy_j": [_short(value) for value in self.energies_j],
                "time_s": [_short(value) for value in self.times_s],
                "drift": [_short(factor) for factor in drift.time],
                "energy_drift": [_short(factor) for factor in drift.energy],
                "outlier": [i for i, out in enumerate(outlier) if out],
                **self._evidence(),
                **({"faults": self.faults} if self.faults else {}),
            },
        )

    def _evidence(self) -> dict[str, list[int]]:
        """How many samples of a sensor each burst rests on; nothing, where it has none."""
        samples = [burst.samples for burst in self.bursts if burst.samples is not None]
        return {"samples": samples} if len(samples) == len(self.bursts) else {}

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
                replace(layer, features=features)
                for layer, features in zip(self.layers, loaded.features, strict=True)
            )
        self.steps = warm_up(device, loaded.handle, effort.burst_s, effort.warmup_s)
        if effort.steps is not None:
            self.steps = effort.steps

    def _burst(self, device: Device) -> None:
        if self.handle is None:
            raise MeasurementFailed("it was never loaded")
        burst, faults = take_burst(device, self.handle, self.steps)
        self.bursts.append(burst)
        self.began_at.append(time.time() - burst.time_s)
        self.faults += faults

    def _corrected(self, drift: Drift) -> tuple[list[float], list[float]]:
        """Joules and seconds per step of each burst, the drift of its round divided out."""
        return (
            [value / by for value, by in zip(self.energies_j, drift.energy, strict=True)],
            [value / by for value, by in zip(self.times_s, drift.time, strict=True)],
        )


def _grain(resolution: Resolution, steps: int, energy_j: float, time_s: float) -> float:
    """Relative error of a burst from the meter's steps alone: equal counts are not certain ones.

    Both ends of a burst are off by up to a step or an update, evenly: √(2/12) of it together.
    """
    off_j = max(resolution.energy_j, resolution.period_s * energy_j / time_s)
    return math.sqrt(1 / 6) * off_j / (steps * energy_j)


def _outliers(*series: Sequence[float]) -> list[bool]:
    """Which bursts lie far from the others in any series; they stay in the journal, marked."""
    outlier = [False] * len(series[0])
    for values in series:
        centre = statistics.median(values)
        deviation = statistics.median(abs(value - centre) for value in values)
        limit = max(OUTLIER * deviation / 0.6745, 1e-12)
        far = [len(values) > 3 and abs(value - centre) > limit for value in values]
        outlier = [before or now for before, now in zip(outlier, far, strict=True)]
    return outlier


def _relative_std(values: Sequence[float]) -> float:
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 1 else 0.0


def _short(value: float) -> float:
    return float(f"{value:.5g}")
