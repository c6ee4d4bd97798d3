"""Batteries as meters, once for all: what left them, and how finely they tell.

A battery shows what is left in it, or what is drawn from it, in steps and from time to time:

    left                                 energy   joules: their fall is what was spent
      │ ──p┐                             charge   coulombs: their fall × the mean voltage
      │    └a─────b┐                     power    watts, integrated (see integration.py)
      │            └n──┐
      └──────────────────────── time     p, a, b, n: looks at it

It tells of the whole device only while nothing else feeds it. A look at a device that is plugged in
is refused, and so is the next reading if a charger came and went since the last one.

A thread looks every `period_s`: it sees chargers that come and go, and a reading says how many of
its looks it rests on. How coarse a gauge is differs from device to device, so it also learns.
What was seen from a to b, after p and before n, stood for b - a at least and for n - p at most. The
time between updates is the documented one, but no less than the median of the former, and else no
more than the median of the latter: looks that are rare (0 at least, long at most) change nothing.
The step is the smallest one that was seen clearly, after the gauge had stood for longer than the
looks around it are apart; until then the documented one, or the smallest change if that is less.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import AUTO, Meter, Provenance, Reading, Resolution
from ampere.meters.integration import Integral
from ampere.meters.sampler import Sampler

SOURCES = ("energy", "charge", "power")  # best first: what is counted misses no peak
MOVES = 3  # so many must have been seen before anything is learnt from them
RECENT = 101
FROZEN_S = 900.0  # no gauge is updated more rarely: Android's slowest default is 10 minutes


class PluggedIn(MeterError):
    """Something besides its battery feeds the device, so the battery does not tell of it."""


@dataclass(frozen=True)
class Battery:
    """What one battery shows at one look; None where it shows nothing that can be used."""

    energy_j: float | None = None  # left in it
    charge_c: float | None = None  # left in it
    voltage_v: float | None = None
    power_w: float | None = None  # drawn from it

    def level(self, source: str) -> tuple[float, float] | None:
        """What is left in it, and the joules in one unit of that."""
        if source == "energy":
            return None if self.energy_j is None else (self.energy_j, 1.0)
        if self.charge_c is None or self.voltage_v is None:
            return None
        return self.charge_c, self.voltage_v

    def shows(self, source: str) -> bool:
        """Whether joules can be had from it in this way."""
        return (self.power_w if source == "power" else self.level(source)) is not None


class Fineness:
    """Learns how finely a number tells, from looks at it; see the top of this module."""

    def __init__(self, documented: Resolution) -> None:
        self._documented = documented
        self._value = self._before_s = self._first_s = self._last_s = math.nan
        self._at_least_s: deque[float] = deque(maxlen=RECENT)
        self._at_most_s: deque[float] = deque(maxlen=RECENT)
        self._step = self._clear_step = math.inf

    def look(self, time_s: float, value: float) -> None:
        """One more look; the order is that of time."""
        if value == self._value:
            self._last_s = time_s
            return
        if not math.isnan(self._before_s):  # nobody saw when the first value began
            stood_s, step = self._last_s - self._first_s, abs(value - self._value)
            self._at_least_s.append(stood_s)
            self._at_most_s.append(time_s - self._before_s)
            self._step = min(self._step, step)
            if stood_s > time_s - self._last_s:
                self._clear_step = min(self._clear_step, step)
        self._value, self._before_s = value, self._last_s
        self._first_s = self._last_s = time_s

    @property
    def resolution(self) -> Resolution:
        """What was learnt; what is documented, as long as too little was seen."""
        if len(self._at_least_s) < MOVES:
            return self._documented
        at_least_s = statistics.median(self._at_least_s)
        at_most_s = statistics.median(self._at_most_s)
        step_j = self._clear_step
        if math.isinf(step_j):
            step_j = min(self._step, self._documented.energy_j)
        return Resolution(step_j, max(at_least_s, min(at_most_s, self._documented.period_s)))


@dataclass(frozen=True)
class _Level:
    """What was left in a battery at a look that was believed, and since when it had been so."""

    left: float
    unit_j: float
    since_s: float


class DischargeMeter(Meter):
    """Joules that leave a device's batteries: a driver says what they show, the rest is here.

    Drivers call `super().__init__` last, since it begins to look.
    """

    provenance: ClassVar[Provenance] = Provenance.BATTERY
    documented: ClassVar[Mapping[str, Resolution]]  # by source: which there are, and how fine
    most_w: ClassVar[float]  # more than such a device can draw
    preferred: Sequence[str] = SOURCES  # the order of `auto`; a driver's first look may change it

    def __init__(self, source: str, period_s: float) -> None:
        if not 0 < period_s < math.inf:
            raise MeterError(f"meter {self.name}: period_s={period_s} must be above 0")
        time_s, batteries = self._look()
        self._source = self._choose(source, batteries)
        self._period_s = period_s
        self._fineness = Fineness(self.documented[self._source])
        self._integral = Integral(period_s, frozen_s=FROZEN_S)
        self._total_j = 0.0
        self._levels: dict[str, _Level] = {}
        self._doubted: set[str] = set()  # batteries whose last level was not believed
        self._spoilt: MeterFault | None = None  # why joules since the last reading are unknown
        self._samples = 0  # of the thread, that could be used
        self._count(time_s, batteries)
        self._lock = threading.Lock()
        self._sampler = Sampler(self._tick, period_s)

    @classmethod
    def obstacle(cls, *where: str) -> str | None:
        """None if it is reached, there by default, and discharges."""
        try:
            cls(*where).close()  # type: ignore[arg-type]  # drivers begin with where they look
        except MeterError as error:
            return str(error)
        return None

    @abstractmethod
    def look(self) -> Mapping[str, Battery]:
        """What each battery shows now.

        Raises:
            PluggedIn: Something else feeds the device.
            MeterError: It cannot be looked at.
        """

    def read(self) -> Reading:
        """Joules since the meter was opened."""
        with self._lock:
            trouble = self._sampler.trouble()  # first: a slow tool would make it look late
            try:
                time_s, _ = self._sample()
            finally:
                spoilt, self._spoilt = self._spoilt, None
            if trouble or spoilt is not None:
                raise spoilt or MeterFault(trouble)
            counted = self._source != "power"
            energy_j = self._total_j if counted else self._integral.look(time_s)
            return Reading(energy_j, time_s, self.provenance, self._samples, self._period_s)

    def close(self) -> None:
        """End the thread."""
        self._sampler.end()

    def _tick(self) -> None:
        with self._lock, contextlib.suppress(MeterError):  # a look may be missing
            self._samples += self._sample()[1]

    def _sample(self) -> tuple[float, bool]:
        """Look once: when that was, and whether what was seen can be true.

        What spoils the joules since the last reading is kept for the next one.
        """
        try:
            time_s, batteries = self._look()
        except PluggedIn as error:
            self._spoilt = MeterFault(f"since the last reading: {error}")
            self._levels.clear()  # while it is charged, they say nothing
            self._doubted.clear()
            raise
        return time_s, self._count(time_s, batteries)

    def _look(self) -> tuple[float, Mapping[str, Battery]]:
        """One look, which stands for the middle of the time that it takes."""
        begin_s = time.perf_counter()
        batteries = self.look()
        return (begin_s + time.perf_counter()) / 2, batteries

    def _choose(self, source: str, batteries: Mapping[str, Battery]) -> str:
        if source not in (AUTO, *self.documented):
            sources = ", ".join((AUTO, *self.documented))
            raise MeterError(f"meter {self.name}: source={source} is unknown; choose of {sources}")
        usable = [
            wanted
            for wanted in self.preferred
            if wanted in self.documented and all(b.shows(wanted) for b in batteries.values())
        ]
        if not usable:
            raise MeterError(f"the battery shows none of {', '.join(self.documented)}")
        if source not in (AUTO, *usable):
            raise MeterError(f"the battery does not show {source}; choose of {', '.join(usable)}")
        return usable[0] if source == AUTO else source

    def _count(self, time_s: float, batteries: Mapping[str, Battery]) -> bool:
        for name, battery in batteries.items():
            if not battery.shows(self._source):
                raise MeterFault(f"battery {name} shows no {self._source} that can be true")
        if self._source == "power":
            power_w = sum(battery.power_w or 0.0 for battery in batteries.values())
            self._fineness.look(time_s, power_w)
            learnt_s = self._fineness.resolution.period_s
            self.resolution = Resolution(period_s=max(learnt_s, self._period_s))
            return self._integral.add(time_s, power_w if power_w <= self.most_w else math.nan)
        for name, battery in batteries.items():
            left, unit_j = battery.level(self._source) or (math.nan, math.nan)
            self._total_j += self._spent_j(name, _Level(left, unit_j, time_s))
        self._fineness.look(time_s, self._total_j)
        self.resolution = self._fineness.resolution
        return not self._doubted

    def _spent_j(self, name: str, now: _Level) -> float:
        """Joules that left a battery since the last look that was believed."""
        last = self._levels.get(name, now)
        spent_j = (last.left - now.left) * (last.unit_j + now.unit_j) / 2
        stood_s = now.since_s - last.since_s + self.documented[self._source].period_s
        if 0 <= spent_j <= self.most_w * stood_s:
            since_s = last.since_s if now.left == last.left else now.since_s
            self._levels[name] = _Level(now.left, now.unit_j, since_s)
            self._doubted.discard(name)
            return spent_j
        self._spoilt = MeterFault(
            f"battery {name} went from {last.left:.6g} to {now.left:.6g} "
            f"{'J' if self._source == 'energy' else 'C'}, which is not what a device draws"
        )
        if name in self._doubted:  # not a slip: it stays there, so count on from there
            self._levels[name] = now
        self._doubted ^= {name}
        return 0.0
