"""What a meter is: a running total of joules that can be looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from ampere.errors import MeterError


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
            return str(self.value)
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


def energy_between(before: Reading, after: Reading) -> tuple[float, float]:
    """Joules and seconds from one reading to a later one of the same meter.

    Raises:
        MeterError: If the readings cannot be true, or the meter did not move.
    """
    if before.provenance is not after.provenance:
        raise MeterError(
            f"a {before.provenance.value} and a {after.provenance.value} reading cannot be "
            "subtracted; read the same meter twice"
        )
    energy_j = after.energy_j - before.energy_j
    time_s = after.time_s - before.time_s
    if not (math.isfinite(energy_j) and math.isfinite(time_s)):
        raise MeterError(f"meter returned {after} after {before}; it needs finite numbers")
    if time_s <= 0:
        raise MeterError(f"meter's clock did not advance ({time_s:g} s); read it later again")
    if energy_j < 0:
        raise MeterError(f"meter ran backwards by {-energy_j:g} J; choose another meter")
    if energy_j == 0:
        raise MeterError(
            f"meter did not move in {time_s:g} s; run for longer or choose another meter"
        )
    return energy_j, time_s
