"""Replays a log that a real meter wrote, so that its readings can be used without the hardware.

The log is CSV: `time_s,energy_j` with running totals, `time_s,power_w`, or any other that `traces`
can read. Each reading is the next sample.
"""

from __future__ import annotations

from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.base import Meter, Provenance, Reading
from ampere.meters.trace_files import read_trace


class ReplayMeter(Meter):
    """Recorded joules: one sample of a CSV log a reading."""

    name: ClassVar[str] = "replay"
    rung: ClassVar[int] = 140
    provenance: ClassVar[Provenance] = Provenance.RECORDED
    summary: ClassVar[str] = "replays a CSV log of another meter (replay:path=log.csv)"

    def __init__(self, path: str) -> None:
        self._path = path
        self._trace = read_trace(path)  # the whole log is checked before any of it is used
        self._next = 0

    @classmethod
    def obstacle(cls) -> str | None:
        """It cannot know by itself where the log is."""
        return "give it the log's path: --meter replay:path=log.csv"

    def read(self) -> Reading:
        """The next sample of the log."""
        times_s, index = self._trace.times_s, self._next
        if index == len(times_s):
            raise MeterError(
                f"{self._path}: log is exhausted after {index} readings; record a longer one"
            )
        self._next += 1
        if index:
            self._trace.check(times_s[index - 1], times_s[index])
        return Reading(self._trace.totals_j[index], times_s[index], self.provenance)
