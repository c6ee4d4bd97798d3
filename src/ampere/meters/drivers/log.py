"""A lab meter's log, read while the lab's tool writes it.

    log   ─┬────────────┬──────────────┬─ ─ ─
         start       moment A       moment B          a reading is the joules from start to moment
                        ·              ·
    work                ├── a burst ───┤              its end may reach the log seconds later

Each look notes the moment; its joules are looked up later, once the log has passed it.
`traces` tells which logs can be read. Their clock is set beside this machine's in one of two ways:

    align=time    the log has dates or epoch seconds; `offset_s` is added to them
    align=pulse   the meter keeps a processor of this machine busy in a known pattern while it is
                  opened, and looks for it in the log; so the log must show this machine
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import AUTO, Meter, Provenance, Reading, Resolution
from ampere.meters.trace_files import TraceReader
from ampere.meters.traces import PowerTrace

PULSE = (1.0, 1.0, 2.0, 1.0, 1.0)  # seconds busy, idle, busy and so on: like no other load
POLL_S = 0.02
AHEAD_S = 1.0  # by which the log's clock may be wrong
SET_S, SLEWED = 0.01, 0.001  # by which this machine's may differ from its steady one: if set, more


class _Moment(Reading):
    """A reading whose joules are looked up when they are asked for.

    A log is seconds late. Waiting for it before a burst would put those seconds into the burst; so
    both moments are only noted, and looked up when the burst is over.
    """

    _look: Callable[[], Reading]

    def __init__(self, time_s: float, look: Callable[[], Reading]) -> None:
        values = {"time_s": time_s, "provenance": Provenance.EXTERNAL, "_look": lru_cache(1)(look)}
        for name, value in values.items():
            object.__setattr__(self, name, value)  # readings are frozen

    @property
    def energy_j(self) -> float:
        """Joules from the log's start to this moment."""
        return self._look().energy_j

    @property
    def samples(self) -> int | None:
        """Samples of the log up to this moment."""
        return self._look().samples

    @property
    def period_s(self) -> float:
        """Seconds from one to the next."""
        return self._look().period_s


class LogMeter(Meter):
    """Joules of whatever a lab's meter watches."""

    name: ClassVar[str] = "log"
    rung: ClassVar[int] = 90
    provenance: ClassVar[Provenance] = Provenance.EXTERNAL
    summary: ClassVar[str] = "a lab meter's CSV log, while it is recorded (log:path=power.csv)"
    addresses: ClassVar[tuple[str, ...]] = ("path", "format", "align", "offset_s", "wait_s")
    outside: ClassVar[bool] = True

    def __init__(
        self,
        path: str,
        format: str = AUTO,
        align: str = "time",
        offset_s: float = 0.0,
        wait_s: float = 30.0,
    ) -> None:
        if align not in ("time", "pulse"):
            raise MeterError(f"meter log: align={align} is unknown; choose time or pulse")
        if not (math.isfinite(offset_s) and 0 < wait_s < math.inf):
            raise MeterError(f"meter log: offset_s={offset_s}, wait_s={wait_s} must be seconds")
        self._path, self._wait_s, self._offset_s = path, wait_s, offset_s
        self._reader = TraceReader(path, format)
        self._clock: Callable[[], float] = time.time if align == "time" else time.perf_counter
        self._shift_s = (0.0 if align == "time" else self._find_pulse()) - offset_s
        self._since_s, self._steady_s = self._now_s(), time.perf_counter()
        self.resolution = Resolution(period_s=self._look(self._since_s).period_s)

    @classmethod
    def obstacle(cls) -> str | None:
        """It cannot know by itself where the log is."""
        return "give it the log's path: --meter log:path=power.csv"

    def read(self) -> Reading:
        """This moment; whoever asks for its joules waits until the log has come that far."""
        time_s, now_s = time.perf_counter(), self._now_s()
        passed_s, set_s = time_s - self._steady_s, now_s - self._since_s - time_s + self._steady_s
        since_s, self._since_s, self._steady_s = self._since_s, now_s, time_s

        def look() -> Reading:
            if abs(set_s) > SET_S + SLEWED * passed_s:
                raise MeterFault(f"this machine's clock was set by {set_s:.3g} s; measure again")
            return self._reading(since_s, now_s, time_s)

        return _Moment(time_s, look)

    def _reading(self, since_s: float, now_s: float, time_s: float) -> Reading:
        """Joules from the log's start to a moment; raises what is wrong with the log since."""
        trace = self._look(now_s)
        trace.check(since_s, now_s)
        samples = None if trace.counted else trace.samples_until(now_s)
        return Reading(trace.total_j(now_s), time_s, self.provenance, samples, trace.period_s)

    def _now_s(self) -> float:
        """Now, on the log's clock."""
        return self._clock() + self._shift_s

    def _look(self, moment_s: float) -> PowerTrace:
        trace = self._wait_for(moment_s)
        trace.total_j(moment_s)  # raises if the log only begins later
        ahead_s = trace.end_s - self._now_s()
        if ahead_s > AHEAD_S:
            raise MeterError(
                f"{self._path} is {ahead_s:.3g} s ahead of this machine's time; set the clocks, or "
                f"give offset_s={self._offset_s - ahead_s:.3g}"
            )
        return trace

    def _wait_for(self, moment_s: float) -> PowerTrace:
        """The log as soon as it reaches beyond a moment of its own clock."""
        deadline_s = time.perf_counter() + self._wait_s
        while not (end_s := self._reader.poll()) > moment_s:
            if time.perf_counter() > deadline_s:
                self._reader.trace()  # raises if there is nothing in it at all
                raise MeterError(
                    f"{self._path} is {moment_s - end_s:.3g} s behind after {self._wait_s:g} s of "
                    "waiting; is it still recorded, and in this machine's time (align, offset_s)?"
                )
            time.sleep(POLL_S)
        return self._reader.trace()

    def _find_pulse(self) -> float:
        """Seconds from this machine's performance counter to the log's clock."""
        self._wait_for(-math.inf)
        before_s, noted_s = self._reader.poll(), time.perf_counter()
        began_s = make_pulse(time.perf_counter)
        deadline_s = time.perf_counter() + self._wait_s
        reach_s = before_s + time.perf_counter() - noted_s
        while True:
            trace = self._wait_for(reach_s)
            try:
                return trace.find_pulse(PULSE, since_s=before_s) - began_s
            except MeterError as error:
                if time.perf_counter() > deadline_s:
                    raise MeterError(f"{self._path}: {error}") from None
            reach_s = trace.end_s + min(PULSE) / 2  # the log may lag behind


def make_pulse(clock: Callable[[], float] = time.time) -> float:
    """Keep a processor busy in the known pattern; returns when that began."""
    time.sleep(min(PULSE))
    began_s = clock()
    for index, seconds in enumerate(PULSE):
        (time.sleep if index % 2 else _keep_busy)(seconds)
    return began_s


def _keep_busy(seconds: float) -> None:
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass
