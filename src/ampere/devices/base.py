"""What a device is: something that loads a workload and repeats its training step under a meter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Features, Work
from ampere.core.types import Json
from ampere.core.workloads import Workload
from ampere.meters.base import Provenance, Resolution
from ampere.meters.surroundings import Evidence, Watched


@dataclass(frozen=True)
class Loaded:
    """A workload that is ready to run on the device, and what the device knows of its layers.

    Of a loader it knows the worker processes, and the samples of a batch where it says so.
    """

    handle: int
    features: tuple[Features, ...] = ()
    work: tuple[tuple[Work, ...], ...] = ()  # of each layer, where features are
    workers: int = 0
    samples: int | None = None


@dataclass(frozen=True)
class Burst:
    """A number of steps in one go, with their joules and seconds in total.

    `samples` is how many of a sensor's the joules rest on, where they do; `evidence` is what ran
    beside it, where the device tells.
    """

    steps: int
    energy_j: float
    time_s: float
    samples: int | None = None
    evidence: Evidence | None = None


class Device(Protocol):
    """Hardware with settings.

    A crash, a hang or a lack of memory raises a `MeasurementFailed` of its own type, a reading that
    cannot be true `MeterFault`; a device that is lost for good `DeviceError`.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """What must stay the same for measurements to mix, and what should."""
        ...

    @property
    def provenance(self) -> Provenance:
        """Where this device's joules come from."""
        ...

    @property
    def resolution(self) -> Resolution:
        """How finely its meter tells: bursts are long enough for it."""
        ...

    @property
    def meter(self) -> Mapping[str, Json]:
        """The meter's name and settings."""
        ...

    def load(self, workload: Workload) -> Loaded:
        """Build a workload and make it ready to run."""
        ...

    def burst(self, handle: int, steps: int) -> Burst:
        """Run this many steps and say what they took."""
        ...

    def unload(self, handle: int) -> None:
        """Forget a workload."""
        ...

    def watch(self, time_s: float) -> Watched:
        """Ask nothing of it for a while, and see what it does meanwhile."""
        ...

    def now(self) -> float:
        """Seconds since 1970 on its own clock; differences are true, it is never set."""
        ...

    def close(self) -> None:
        """End whatever the device started."""
        ...
