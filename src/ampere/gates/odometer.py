"""Odometer: joules that a run has spent so far, whatever its meter does meanwhile.

    the meter ...                      what is counted                             told
    answers                            the difference of its totals                -
    fails, or is plugged in            the watts of before × seconds, for now      once
    answers again                      the difference, which has the gap in it;    once
                                       of a battery the larger of both
    begins anew from less              the watts of before × seconds               once
    stands still for far too long      as one that fails                           once
    slept with the machine             what it says; seconds asleep do not count   each time

What was filled in is never called metered: `Look.filled_j` says how much of the total it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from ampere.core import units
from ampere.meters.base import Meter, Provenance, Reading

FROZEN = 10.0  # periods of a meter without a change, before it is taken for dead
FROZEN_S = 60.0  # and so many seconds at least
ASLEEP_S = 2.0  # clocks may differ by a little
SMOOTHING_S = 10.0  # over which the watts are averaged that fill gaps


@dataclass(frozen=True)
class Look:
    """The odometer at a moment."""

    time_s: float  # awake, since it began
    spent_j: float
    filled_j: float = 0.0  # of these, guessed where the meter did not tell
    doubt_j: float = 0.0  # what the meter may not show yet
    failing: bool = False
    notes: tuple[str, ...] = ()


def slept_s() -> float:
    """Seconds that this machine has slept since it was started, as far as it tells."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class Odometer:
    """Counts joules by a meter from its first look on.

    Args:
        meter: What is read.
        clock: Seconds while awake; those of a simulated device, where it is one.
        asleep: Seconds that the machine has slept so far.
    """

    def __init__(
        self,
        meter: Meter,
        clock: Callable[[], float] = time.perf_counter,
        asleep: Callable[[], float] = slept_s,
    ) -> None:
        self._meter = meter
        self._clock = clock
        self._asleep = asleep
        self._last = meter.read()  # one that does not answer now is the caller's to hear of
        self._start_s = self._seen_s = self._changed_s = clock()
        self._slept_s = asleep()
        self._metered_j = self._filled_j = self._gap_j = 0.0
        self._power_w = 0.0
        self._failing: str | None = None
        self._notes: list[str] = []

    @property
    def provenance(self) -> Provenance:
        """Where its joules come from."""
        return self._meter.provenance

    @property
    def meter(self) -> str:
        """The name of its meter."""
        return self._meter.name

    @property
    def least_j(self) -> float:
        """The smallest step that its meter tells."""
        return self._meter.resolution.energy_j

    def window_s(self, power_w: float, error: float) -> float:
        """How far apart two looks must be to tell so many watts; 0 if that is not known yet."""
        window_s = self._meter.resolution.window_s(power_w, error)
        return window_s if math.isfinite(window_s) else 0.0

    def look(self) -> Look:
        """What was spent until now; it never raises because of the meter."""
        now_s = self._clock()
        passed_s = max(0.0, now_s - self._seen_s)
        self._seen_s = now_s
        self._note_sleep()
        try:
            reading = self._meter.read()
            fault = None if math.isfinite(reading.energy_j) else "it shows no number"
        except Exception as error:  # whatever a driver or its hardware does: training goes on
            fault = str(error) or type(error).__name__
        if fault is None and self._is_frozen(reading, now_s):
            fault = f"it has not moved for {units.seconds(now_s - self._changed_s)}"
        if fault is None:
            self._take(reading, now_s, passed_s)
        else:
            self._fill(fault, passed_s)
        notes, self._notes = tuple(self._notes), []
        return Look(
            time_s=now_s - self._start_s,
            spent_j=self._metered_j + self._filled_j + self._gap_j,
            filled_j=self._filled_j + self._gap_j,
            doubt_j=self._doubt_j(),
            failing=self._failing is not None,
            notes=notes,
        )

    def close(self) -> None:
        """Let go of the meter; what it says of that is nobody's concern any more."""
        try:
            self._meter.close()
        except Exception as error:
            self._notes.append(f"the meter {self._meter.name} could not be closed: {error}")

    def _take(self, reading: Reading, now_s: float, passed_s: float) -> None:
        delta_j = reading.energy_j - self._last.energy_j
        if delta_j < 0:
            self._notes.append(
                f"the meter {self._meter.name} began anew: what it missed is filled in at"
                f" {units.watts(self._power_w)}"
            )
            self._filled_j += self._gap_j + self._power_w * passed_s
            self._gap_j, delta_j = 0.0, 0.0
            self._changed_s = now_s
        elif self._failing is not None:
            # What a battery gave while it was charged stands nowhere in its own account.
            missed_j = max(0.0, self._gap_j - delta_j)
            if self.provenance is Provenance.BATTERY:
                self._filled_j += missed_j
            self._gap_j = 0.0
        if delta_j > 0:
            self._learn_power(delta_j, now_s)
            self._changed_s = now_s
        if self._failing is not None:
            self._notes.append(f"the meter {self._meter.name} answers again")
            self._failing = None
        self._metered_j += delta_j
        self._last = reading

    def _fill(self, fault: str, passed_s: float) -> None:
        if self._failing is None:
            self._notes.append(
                f"the meter {self._meter.name} fails ({fault}): until it answers, joules are"
                f" filled in at {units.watts(self._power_w)}"
            )
        self._failing = fault
        self._gap_j += self._power_w * passed_s

    def _is_frozen(self, reading: Reading, now_s: float) -> bool:
        if reading.energy_j != self._last.energy_j:
            return False
        patience_s = max(FROZEN_S, FROZEN * self._meter.resolution.period_s)
        step_j = self._meter.resolution.energy_j
        if step_j and self._power_w > 0:
            patience_s = max(patience_s, FROZEN * step_j / self._power_w)
        return self._power_w > 0 and now_s - self._changed_s > patience_s

    def _learn_power(self, delta_j: float, now_s: float) -> None:
        passed_s = now_s - self._changed_s
        if passed_s <= 0:
            return
        weight = 1.0 if self._power_w == 0 else 1.0 - math.exp(-passed_s / SMOOTHING_S)
        self._power_w += weight * (delta_j / passed_s - self._power_w)

    def _doubt_j(self) -> float:
        """Joules that were spent and are not shown yet, at most: a step, and a late update."""
        resolution = self._meter.resolution
        return resolution.energy_j + self._power_w * resolution.period_s

    def _note_sleep(self) -> None:
        asleep_s = self._asleep()
        if asleep_s - self._slept_s > ASLEEP_S:
            slept = units.seconds(asleep_s - self._slept_s)
            self._notes.append(f"the machine slept for {slept}: these seconds do not count")
        self._slept_s = asleep_s
