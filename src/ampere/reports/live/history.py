"""History: what is known of one run, line after line of its file.

Bounded, whatever the file has: its curve is thinned, its notes are the last ones. Of several runs
in one file the last one counts; a run that is resumed goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import median

from ampere.core import units
from ampere.errors import DataError
from ampere.gates.story import End, Event, Reason, Start, Status, Verdict, read_event
from ampere.meters.base import Provenance
from ampere.reports.live.curve import Curve, Point
from ampere.reports.live.follower import Line

MOST_NOTES = 200
LATEST_GAPS = 20

_TURNS = {  # how a new verdict is told
    Verdict.INSIDE: "inside its budget, by the forecast",
    Verdict.RISK: "may exceed its budget, by the forecast",
    Verdict.OVER: "will exceed its budget, by the forecast",
    Verdict.STOP: "has to stop: one more window could exceed the budget",
    Verdict.UNGATED: "nobody watches: the meter failed",
}
_ENDS = {
    Reason.FINISHED: "finished",
    Reason.BUDGET: "stopped at its budget",
    Reason.REFUSED: "refused before it began",
    Reason.FAILED: "the training failed",
    Reason.LEFT: "the loop ended before its steps were done",
}


@dataclass(frozen=True)
class Note:
    """Something that happened: when, at which step, and what."""

    time: str
    step: int | None
    text: str


@dataclass
class History:
    """One run so far."""

    start: Start | None = None
    status: Status | None = None  # the latest, of any part
    end: End | None = None
    parts: int = 0  # 2 and more: it was resumed
    curve: Curve = field(default_factory=Curve)
    notes: deque[Note] = field(default_factory=lambda: deque(maxlen=MOST_NOTES))
    dropped_notes: int = 0
    damaged: int = 0  # lines that cannot be read
    first_damage: str = ""
    _latest: Event | None = None
    _earlier_s: float = 0.0  # of the parts before this one
    _gaps_s: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST_GAPS))

    def take(self, lines: Iterable[Line]) -> None:
        """Learn from lines of the file; what cannot be read is counted, and the first one told."""
        for line in lines:
            try:
                if line.text is None:
                    raise DataError("it is longer than anybody needs")
                self.learn(read_event(line.text))
            except DataError as error:
                self.damaged += 1
                self.first_damage = self.first_damage or f"line {line.number}: {error}"

    def learn(self, event: Event) -> None:
        """Learn one event."""
        if isinstance(event, Start):
            self._begin(event)
        elif isinstance(event, Status):
            self._look(event)
        else:
            self.end = event
            self._tell(event.time, event.step, _ENDS[event.reason], *event.notes)
            if self._time_s(event) > self.curve.end_s:
                self.curve.add(Point(self._time_s(event), event.spent_j))
        self._latest = event

    @property
    def provenance(self) -> Provenance | None:
        """Of its joules; None before it said anything."""
        return None if self._latest is None else self._latest.provenance

    @property
    def spent_j(self) -> float:
        """Joules so far, of all parts."""
        return 0.0 if self._latest is None else self._latest.spent_j

    @property
    def step(self) -> int:
        """Steps so far, of all parts."""
        return 0 if self._latest is None else self._latest.step

    @property
    def steps(self) -> int | None:
        """Steps to do; None if nobody knows."""
        told = self.status.steps if self.status else None
        return told or (self.start.steps if self.start else None)

    @property
    def budget_j(self) -> float | None:
        """The limit; None if there is none."""
        if self.start is not None:
            return self.start.budget_j
        return self.status.budget_j if self.status else None

    @property
    def told_at_s(self) -> float | None:
        """When it told something last, by its own clock."""
        return None if self._latest is None else seconds_of(self._latest.time)

    @property
    def usual_gap_s(self) -> float:
        """Seconds between its looks; 0 before there are two."""
        return median(self._gaps_s) if self._gaps_s else 0.0

    def _begin(self, start: Start) -> None:
        if self.start is not None and start.run != self.start.run:
            self.parts, self.status, self.curve, self.dropped_notes = 0, None, Curve(), 0
            self.notes.clear()
            self._tell(start.time, None, "another run stands before this one in its file")
        self.parts += 1
        if self.parts == 1:
            self.curve.add(Point(0.0, start.spent_j))
        self.start, self.end = start, None
        self._earlier_s = self.curve.end_s
        self._gaps_s.clear()
        again = f"resumed, with {units.joules(start.spent_j)} spent before"
        self._tell(start.time, start.step, "started" if self.parts == 1 else again, *start.notes)

    def _look(self, status: Status) -> None:
        before, self.status = self.status, status
        self.end = None
        if status.verdict in _TURNS and (before is None or before.verdict != status.verdict):
            self._tell(status.time, status.step, _TURNS[status.verdict])
        self._tell(status.time, status.step, *status.notes)
        now_s, before_s = seconds_of(status.time), self.told_at_s
        if now_s is not None and before_s is not None and now_s >= before_s:
            self._gaps_s.append(now_s - before_s)
        self.curve.add(
            Point(
                self._time_s(status),
                status.spent_j,
                status.forecast_j,
                status.forecast_j_interval,
                status.power_w,
            )
        )

    def _time_s(self, event: Status | End) -> float:
        """Time of its running; a resumed run may count on, or begin at 0 again."""
        so_far_s, elapsed_s = self.curve.end_s, event.elapsed_s or self._by_clock_s(event)
        if self._earlier_s and elapsed_s < so_far_s:
            elapsed_s += self._earlier_s
        return max(elapsed_s, so_far_s)

    def _by_clock_s(self, event: Status | End) -> float:
        """Of a run that does not count its seconds."""
        begun_s = seconds_of(self.start.time) if self.start else None
        now_s = seconds_of(event.time)
        return 0.0 if begun_s is None or now_s is None else max(now_s - begun_s, 0.0)

    def _tell(self, time: str, step: int | None, *texts: str) -> None:
        for text in texts:
            self.dropped_notes += len(self.notes) == MOST_NOTES
            self.notes.append(Note(time, step, text))


def seconds_of(time: str) -> float | None:
    """A moment in seconds since 1970; None if whoever wrote it wrote something else."""
    try:
        moment = datetime.fromisoformat(time.replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
