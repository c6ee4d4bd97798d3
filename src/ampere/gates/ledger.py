"""Ledger: what a run has spent, step by step, and what its next steps will take.

    step ── stride ──▶ was there an interlude?
    look ── odometer ─▶ joules ── lap ──▶ forecaster

A lap is what lies between two looks that are far enough apart for the meter to tell them: a second,
or more with a coarse gauge.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ampere.core import units
from ampere.core.boundary.fields import Fields
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.gates.forecast import LAP_S, Forecast, Forecaster, Lap
from ampere.gates.odometer import Look, Odometer
from ampere.gates.stride import Stride
from ampere.meters.base import Provenance

STATE = 1  # the version of what a checkpoint holds
LAP_ERROR = 0.1  # of a lap, by what the meter cannot tell
SURE = 0.99  # of the next step, before it may begin
FIRST = 1.2  # times what the fastest of the first steps took, as long as there was no lap
RESERVE = 1.5  # times the dearest checkpoint so far
LONG_PAUSE_S = 60.0  # is worth a word
SMOOTHING = 0.3  # of a new look in the watts


class Ledger:
    """Steps and joules of one run, those of its earlier parts among them.

    Args:
        forecaster: Learns from each lap.
        reserve_j: What is kept for a checkpoint until one was seen.
    """

    def __init__(self, forecaster: Forecaster, reserve_j: float = 0.0) -> None:
        self.forecaster = forecaster
        self.step_count = 0
        self.epoch_steps: int | None = None
        self.reserve_j = reserve_j
        self.power_w: float | None = None
        self.notes: list[str] = []
        self._odometer: Odometer | None = None
        self._stride = Stride()
        self._look: Look | None = None
        self._lap: tuple[int, Look] | None = None  # the step and the look at which it began
        self._failing_since_s: float | None = None
        self._before_j = self._before_s = 0.0

    def open(self, odometer: Odometer, now_s: float) -> None:
        """Begin to count by this odometer."""
        self._odometer = odometer
        self._stride.rest(now_s)
        self._look = odometer.look()
        self._lap = (self.step_count, self._look)

    def close(self) -> None:
        """Let go of the meter; what was counted stays, and another may go on from it."""
        if self._odometer is not None:
            self._odometer.close()
        self._odometer = None
        self._before_j, self._before_s = self.spent_j, self.elapsed_s
        self._look = self._lap = None

    # ------------------------------------------------------------------ what it knows

    @property
    def odometer(self) -> Odometer | None:
        """What counts joules; None before the start, after the end, and without a meter."""
        return self._odometer

    @property
    def spent_j(self) -> float:
        """Joules so far."""
        return self._before_j + (0.0 if self._look is None else self._look.spent_j)

    @property
    def doubt_j(self) -> float:
        """Joules that the meter may not show yet."""
        return 0.0 if self._look is None else self._look.doubt_j

    @property
    def elapsed_s(self) -> float:
        """Seconds awake, earlier parts among them."""
        return self._before_s + (0.0 if self._look is None else self._look.time_s)

    @property
    def failing_s(self) -> float:
        """For how long the meter has not answered."""
        if self._failing_since_s is None or self._look is None:
            return 0.0
        return self._look.time_s - self._failing_since_s

    @property
    def failing(self) -> bool:
        """Whether the meter does not answer at present, or there is none."""
        return self._odometer is None or (self._look is not None and self._look.failing)

    @property
    def lap_s(self) -> float:
        """How long a lap has to be for this meter."""
        if self._odometer is None:
            return LAP_S
        return max(LAP_S, self._odometer.window_s(self.power_w or 0.0, LAP_ERROR))

    def rest(self, steps: int) -> Forecast | None:
        """What so many more steps will take; None as long as nothing is known."""
        if not self.forecaster.known:
            return None
        return self.forecaster.rest(steps, self.step_count, self.epoch_steps)

    def next_j(self) -> float:
        """Joules that the next step will hardly exceed, with the interlude that may follow it."""
        step_j = self._next_step_j()
        return step_j + self.forecaster.interludes.due_j(self.step_count, self.epoch_steps, step_j)

    def interlude_j(self) -> float:
        """What the dearest interlude takes, which may come between two looks."""
        return self.forecaster.interludes.dearest_j(self._next_step_j())

    def _next_step_j(self) -> float:
        if self.forecaster.laps:
            return self.forecaster.step().quantile(SURE)
        usual_s = self._stride.usual_s
        seen_j = 0.0 if math.isnan(usual_s) else FIRST * usual_s * (self.power_w or 0.0)
        if not self.forecaster.known:
            return seen_j
        return max(seen_j, self.forecaster.step().energy_j)

    def step_j(self) -> float | None:
        """Joules of a usual step, with its share of interludes; None if not known yet."""
        if not self.forecaster.known:
            return None
        return self.forecaster.step().energy_j * (1 + self.forecaster.interludes.share)

    # ------------------------------------------------------------------ what it is told

    def step(self, now_s: float, count: int) -> float:
        """Steps that end now; returns the seconds of an interlude before them, mostly 0."""
        self.step_count += count
        return self._stride.step(now_s, count)

    def begin_at(self, step: int, now_s: float) -> None:
        """The first step that is told: what was spent before it, on starting, teaches nothing."""
        self.step_count = max(step, self.step_count)
        self._stride.rest(now_s)
        look = self._see()
        if look is not None:
            self._lap = (self.step_count, look)

    def look(self, pause_s: float = 0.0) -> None:
        """Read the meter; end the lap if it is long enough, or had an interlude in it."""
        look = self._see()
        if look is None or self._lap is None:
            return
        if pause_s:
            self._split(look, pause_s)
        elif look.time_s - self._lap[1].time_s >= self.lap_s and self.step_count > self._lap[0]:
            self._end_lap(look)

    @contextlib.contextmanager
    def aside(self, clock: Any) -> Iterator[None]:
        """Around what is no step: its joules are an interlude, and kept in reserve for the next."""
        before = self._see()
        if before is not None:
            self._end_lap(before)
        try:
            yield
        finally:
            after = self._see()
            if before is not None and after is not None:
                cost_j = max(0.0, after.spent_j - before.spent_j)
                self.reserve_j = max(self.reserve_j, RESERVE * cost_j)
                self.forecaster.interludes.tell(cost_j, max(1, self.step_count))
                self._lap = (self.step_count, after)
            self._stride.rest(clock())

    def _see(self) -> Look | None:
        if self._odometer is None:
            return None
        look, last = self._odometer.look(), self._look
        self.notes += look.notes
        # Where a meter fails or answers again, what was filled in is corrected: no watts of now.
        if last is not None and look.time_s > last.time_s and look.failing == last.failing:
            power_w = max(0.0, look.spent_j - last.spent_j) / (look.time_s - last.time_s)
            old_w = power_w if self.power_w is None else self.power_w
            self.power_w = old_w + SMOOTHING * (power_w - old_w)
        if not look.failing:
            self._failing_since_s = None
        elif self._failing_since_s is None:
            self._failing_since_s = look.time_s
        self._look = look
        return look

    def _split(self, look: Look, pause_s: float) -> None:
        """A lap with an interlude in it: joules go by seconds, for lack of anything better."""
        assert self._lap is not None
        _, since = self._lap
        passed_s, energy_j = look.time_s - since.time_s, max(0.0, look.spent_j - since.spent_j)
        share = min(1.0, pause_s / passed_s) if passed_s > 0 else 0.0
        if not (look.failing or since.failing):
            self.forecaster.interludes.tell(share * energy_j, self.step_count)
        if pause_s >= LONG_PAUSE_S:
            self.notes.append(
                f"nothing was trained for {units.seconds(pause_s)} before step"
                f" {units.number(self.step_count)}: {units.joules(share * energy_j)} count as spent"
            )
        self._end_lap(look, 1.0 - share)

    def _end_lap(self, look: Look, share: float = 1.0) -> None:
        """Learn from this share of the lap, and begin the next one."""
        if self._lap is None:
            return
        step, since = self._lap
        self._lap = (self.step_count, look)
        if look.failing or since.failing:
            return  # joules that were filled in teach nothing
        energy_j = share * (look.spent_j - since.spent_j)
        time_s = share * (look.time_s - since.time_s)
        least_j = 0.0 if self._odometer is None else self._odometer.least_j
        self.forecaster.tell(Lap(self.step_count - step, energy_j, time_s, least_j))
        self.forecaster.interludes.tell_steps(energy_j)

    # ------------------------------------------------------------------ checkpoints

    def state(self) -> dict[str, Json]:
        """Plain data for a checkpoint."""
        return {
            "version": STATE,
            "step": self.step_count,
            "spent_j": self.spent_j,
            "elapsed_s": self.elapsed_s,
            "reserve_j": self.reserve_j,
            "forecast": self.forecaster.state(),
        }

    def restore(self, fields: Fields, provenance: Provenance) -> None:
        """Go on from what `state` told; joules that were counted since then stay counted.

        Raises:
            DataError: It is not what `state` tells.
        """
        if fields.whole("version") > STATE:
            raise DataError("the gate's state is of a newer ampere: update it")
        forecast: Mapping[str, Any] = fields.inner("forecast").row
        step, spent_j = fields.whole("step"), fields.number("spent_j", least=0)
        elapsed_s = fields.number("elapsed_s", 0.0, least=0)
        reserve_j = fields.number("reserve_j", 0.0, least=0)
        self.forecaster.restore(forecast)
        self.step_count = step
        self._before_j, self._before_s = spent_j, elapsed_s
        self.reserve_j = max(self.reserve_j, reserve_j)
        if self._look is not None:
            self._lap = (step, self._look)
        was = Provenance(
            fields.choice("provenance", [each.value for each in Provenance], provenance.value)
        )
        if was is not provenance:
            self.notes.append(
                f"joules before were {was.origin}, those from now on are {provenance.origin}"
            )

    def count_before(self, step: int, spent_j: float) -> None:
        """Steps and joules of an earlier part that only its story tells of."""
        self.step_count, self._before_j = step, spent_j

    def keep(self, spent_j: float, elapsed_s: float) -> None:
        """Go back to a checkpoint without giving back what was spent since."""
        look = self._look
        self._before_j = max(self._before_j, spent_j) - (0.0 if look is None else look.spent_j)
        self._before_s = max(self._before_s, elapsed_s) - (0.0 if look is None else look.time_s)

    def count_lost(self, spent_j: float) -> None:
        """Joules of this run that its checkpoint does not know of: they were spent as well."""
        if spent_j > self._before_j:
            lost = units.joules(spent_j - self._before_j)
            self.notes.append(f"{lost} were spent after the checkpoint was written: they count")
            self._before_j = spent_j
