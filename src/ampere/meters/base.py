"""What a meter is: a running total of joules that can be looked at."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from ampere.errors import MeterError, MeterFault

AUTO = "auto"  # whatever is best here
SEEN = 0.5  # share of the samples due that a window must have
UNKNOWN_ORIGIN = "of unknown origin"  # instead of `Provenance.origin` where there is none


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
    def origin(self) -> str:
        """What such joules are: it completes the sentence "joules are ..."."""
        return _ORIGINS[self]

    @property
    def immediate(self) -> bool:
        """Whether joules can be read right after a burst, so that they can guide profiling."""
        return self not in (Provenance.BATTERY, Provenance.EXTERNAL)


_ORIGINS = {
    Provenance.COUNTER: "measured by a hardware counter",
    Provenance.SENSOR: "measured by a power sensor",
    Provenance.BATTERY: "measured at the battery",
    Provenance.EXTERNAL: "measured outside ampere",
    Provenance.MODELLED: "modelled from CPU time, not measured",
    Provenance.SIMULATED: "simulated, not measured",
    Provenance.RECORDED: "replayed from a recording, not measured now",
}


@dataclass(frozen=True)
class Reading:
    """One look at a meter: joules since an arbitrary start, at a monotonic time.

    Joules of a sensor rest on samples: on how many so far, those of the looks themselves left out,
    and how far apart they should be. Of a counter every look is the total itself: it has none.
    """

    energy_j: float
    time_s: float
    provenance: Provenance
    samples: int | None = None
    period_s: float = 0.0


@dataclass(frozen=True)
class Window:
    """What two readings come to: joules, seconds, and the samples in between, if it has any."""

    energy_j: float
    time_s: float
    samples: int | None = None

    @property
    def power_w(self) -> float:
        """Mean watts."""
        return self.energy_j / self.time_s


@dataclass(frozen=True)
class Resolution:
    """How finely a meter tells: the smallest step of its total, and the seconds between updates."""

    energy_j: float = 0.0
    period_s: float = 0.0

    def window_s(self, power_w: float, error: float) -> float:
        """How far apart two readings must be, for their difference to have this relative error.

        Each of them may be a step, and an update, away from the truth.
        """
        steps_s = self.energy_j / power_w if power_w > 0 else math.inf if self.energy_j else 0.0
        return max(steps_s, self.period_s) / error


class Meter(ABC):
    """A running total of joules. Two readings, subtracted, are what a piece of work took.

    Settings are keyword arguments of `__init__`, each a number or a text, so that another process
    can open the same meter from plain data. A meter that is `outside` watches the device from
    where ampere runs (a plug, a lab's log, a phone's battery over USB); the others are opened on
    the device itself.
    """

    name: ClassVar[str]
    rung: ClassVar[int] = 1000  # on the ladder of ampere's own meters: `auto` tries low ones first
    provenance: ClassVar[Provenance]
    summary: ClassVar[str]  # what it reads, in a line
    accelerators: ClassVar[tuple[str, ...]] = ("cpu", "cuda", "mps")  # whose joules are in it
    outside: ClassVar[bool] = False
    addresses: ClassVar[tuple[str, ...]] = ()  # settings that only say where it is, or how to ask
    resolution: Resolution = Resolution()

    @classmethod
    def obstacle(cls) -> str | None:
        """None if the meter can be used here, else one line: what is wrong and what to do."""
        return None

    @abstractmethod
    def read(self) -> Reading:
        """Look at the total now.

        Raises:
            MeterFault: What it shows cannot be true; another look may help.
            MeterError: It cannot be read.
        """

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Let go of whatever it holds."""


def energy_between(before: Reading, after: Reading) -> Window:
    """Joules and seconds from one reading to a later one of the same meter.

    Raises:
        MeterFault: If the readings cannot be true, the meter did not move, or its samples are too
            few (see `check_samples`).
    """
    if before.provenance is not after.provenance:
        raise MeterError(
            f"a {before.provenance.value} and a {after.provenance.value} reading cannot be "
            "subtracted; read the same meter twice"
        )
    energy_j = after.energy_j - before.energy_j
    time_s = after.time_s - before.time_s
    if not (math.isfinite(energy_j) and math.isfinite(time_s)):
        raise MeterFault(f"meter returned {after} after {before}; it needs finite numbers")
    if time_s <= 0:
        raise MeterFault(f"meter's clock did not advance ({time_s:g} s); read it later again")
    if energy_j < 0:
        raise MeterFault(f"meter ran backwards by {-energy_j:g} J; choose another meter")
    if energy_j == 0:
        raise MeterFault(
            f"meter did not move in {time_s:g} s; run for longer or choose another meter"
        )
    if before.samples is None or after.samples is None:
        return Window(energy_j, time_s)
    samples = after.samples - before.samples
    check_samples(samples, time_s, after.period_s)
    return Window(energy_j, time_s, samples)


def check_samples(samples: int, time_s: float, period_s: float) -> None:
    """Refuse joules of which nobody saw the middle.

    A sample is due every `period_s`, and half of them must be there, rounded down: of a window of
    two periods one, of twenty ten. The looks at both ends are no evidence of what lies between
    them. Windows shorter than two periods need none: whoever measures makes them long enough
    (`Resolution.window_s`).

    Raises:
        MeterFault: If they are fewer.
    """
    due = time_s / period_s if period_s > 0 else 0.0
    if samples + 1 <= SEEN * due:
        raise MeterFault(
            f"{samples} of {due:.0f} samples in {time_s:.3g} s are too few to tell what was spent:"
            " the sensor was slow, or its thread could not run; set a longer period_s"
        )
