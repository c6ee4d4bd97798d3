"""What a meter is: a running total of joules that can be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable


class Provenance(str, Enum):
    """Where joules come from; it stands beside every number that is printed or stored."""

    COUNTER = "counter"
    SENSOR = "sensor"
    BATTERY = "battery"
    EXTERNAL = "external"
    MODELLED = "modelled"
    SIMULATED = "simulated"
    RECORDED = "recorded"

    @property
    def metered(self) -> str:
        """How joules of this provenance may be called: only hardware measures."""
        if self in (Provenance.MODELLED, Provenance.SIMULATED, Provenance.RECORDED):
            return self.value
        return "measured"

    @property
    def immediate(self) -> bool:
        """Whether joules can be read right after a burst, so that they can guide profiling."""
        return self not in (Provenance.BATTERY, Provenance.EXTERNAL)


@dataclass(frozen=True)
class Reading:
    """One look at a meter: joules since an arbitrary start, at a monotonic time."""

    energy_j: float
    time_s: float
    provenance: Provenance


@runtime_checkable
class Meter(Protocol):
    """A running total of joules. Two readings, subtracted, are what a piece of work took."""

    def read(self) -> Reading:
        """Look at the total now."""
        ...
