r"""Watts to joules, once for all meters that only show power.

    power                      ┌──x
      │     x────x         ┌───┘        x  samples, whenever the sensor was read
      │    /      \   (x)  /            ── trapezoids between them
      │  x/        \──────/            (x) lost, or impossible: bridged, if not for too long
      └──────────────────────── time

A thread reads the sensor every `period_s`, and each look at the meter takes a sample of its own, so
that a window begins and ends with one. Samples that cannot be true (zero, negative, not a number,
more than `MOST_W`) are left out. Where none is left for `GAP` periods, where the sensor shows the
very same number for `frozen_s`, or where the thread could not run, nobody knows what was spent: the
next look is a `MeterFault`. How many samples the thread took stands in each reading.
"""

from __future__ import annotations

import math
import threading
import time
from abc import abstractmethod
from typing import ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Meter, Provenance, Reading, Resolution
from ampere.meters.sampler import GAP, Sampler

MOST_W = 1e6  # no device that trains networks draws more


class Integral:
    """Joules under samples of power: trapezoids, and what was wrong with the samples.

    Args:
        period_s: How often samples should come.
        idle_w: Watts that are subtracted from every sample.
        frozen_s: How long a working sensor may show the very same number.
        floor_w: Samples down to this cannot be true. Below 0 for a lab's meter, which has noise.
    """

    def __init__(
        self,
        period_s: float,
        idle_w: float = 0.0,
        frozen_s: float = math.inf,
        floor_w: float = 0.0,
    ) -> None:
        self.energy_j = 0.0
        self._gap_s, self._idle_w, self._frozen_s = GAP * period_s, idle_w, frozen_s
        self._floor_w = floor_w
        self._last: tuple[float, float] | None = None  # seconds and watts up to which it is summed
        self._seen_s = -math.inf  # when the last good sample was taken
        self._same_since_s = math.nan
        self._bad = ""  # what the samples since the last good one showed
        self._fault = ""

    def add(self, time_s: float, power_w: float) -> bool:
        """One more sample, and whether it can be true; the order is that of time."""
        if not self._floor_w < power_w <= MOST_W:  # NaN is neither
            self._bad = f"{power_w:g} W"
            return False
        if self._last is None:
            self._same_since_s = time_s
        else:
            last_s, last_w = self._last
            if time_s <= last_s:
                return False
            silent_s = time_s - self._seen_s
            if silent_s > self._gap_s:
                shown = f", it showed {self._bad}" if self._bad else ""
                self._fault = f"the sensor said nothing usable for {silent_s:.3g} s{shown}"
            if power_w != last_w:
                self._same_since_s = time_s
            elif time_s - self._same_since_s > self._frozen_s:
                stuck_s = time_s - self._same_since_s
                self._fault = f"the sensor has shown {power_w:g} W for {stuck_s:.3g} s: it is stuck"
            self.energy_j += ((last_w + power_w) / 2 - self._idle_w) * (time_s - last_s)
        self._last, self._seen_s, self._bad = (time_s, power_w), time_s, ""
        return True

    def spoil(self, reason: str) -> None:
        """For another reason, nobody knows what was spent: the next look says so."""
        self._fault = reason

    def look(self, time_s: float) -> float:
        """Joules up to now; a fault since the last look is raised, and forgotten.

        The last good sample stands for the moments since. Without them a lost sample at the end of
        a window would cost the joules of a whole period.
        """
        fault, self._fault = self._fault, ""
        if self._last is None or time_s - self._seen_s > self._gap_s:
            shown = f": it shows {self._bad}" if self._bad else ""
            fault = fault or f"the sensor says nothing usable{shown}"
        if fault or self._last is None:
            raise MeterFault(fault)
        last_s, last_w = self._last
        if time_s > last_s:
            self.energy_j += (last_w - self._idle_w) * (time_s - last_s)
            self._last = (time_s, last_w)
        return self.energy_j


class PowerMeter(Meter):
    """A meter that shows watts: a driver says how they are read, the rest is here.

    Drivers call `super().__init__` last, since it begins to read. `idle_w` is subtracted, if the
    user wants joules above idle.
    """

    provenance: ClassVar[Provenance] = Provenance.SENSOR
    frozen_s: ClassVar[float] = 120.0  # even an idle device's last digit moves now and then

    def __init__(self, period_s: float, idle_w: float = 0.0) -> None:
        if not 0 < period_s < math.inf:
            raise MeterError(f"meter {self.name}: period_s={period_s} must be above 0")
        if not 0 <= idle_w < math.inf:
            raise MeterError(f"meter {self.name}: idle_w={idle_w} must be watts, 0 or more")
        self.resolution = Resolution(period_s=period_s)
        self._period_s = period_s
        self._integral = Integral(period_s, idle_w, self.frozen_s)
        self._lock = threading.Lock()
        self._samples = 0  # of the thread: looks are no evidence of what lies between them
        self._failed: MeterError | None = None
        self._sample()
        self._sampler = Sampler(self._tick, period_s)

    @abstractmethod
    def power_w(self) -> float:
        """Watts now; NaN if there is no answer this time."""

    def read(self) -> Reading:
        """Joules since the meter was opened, a sample at this moment included."""
        with self._lock:
            trouble = self._sampler.trouble()  # first: a slow sensor would make it look late
            time_s, _ = self._sample()
            if trouble:
                self._integral.spoil(trouble)
            if self._failed is not None:
                raise self._failed
            energy_j = self._integral.look(time_s)
            return Reading(energy_j, time_s, self.provenance, self._samples, self._period_s)

    def close(self) -> None:
        """End the thread."""
        self._sampler.end()

    def _sample(self) -> tuple[float, bool]:
        """Read the sensor: when that was done, and whether what it showed can be true.

        The sample stands for the middle of the time that this takes.
        """
        begin_s = time.perf_counter()
        try:
            power_w = float(self.power_w())
            self._failed = None
        except MeterFault:
            power_w = math.nan
        except MeterError as error:
            self._failed, power_w = error, math.nan
        end_s = time.perf_counter()
        return end_s, self._integral.add((begin_s + end_s) / 2, power_w)

    def _tick(self) -> None:
        with self._lock:
            self._samples += self._sample()[1]
