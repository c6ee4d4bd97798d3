"""Book: joules of a running fleet per member and job: planned, running, paid, paid for nothing.

    events ──add──▶ book ──▶ what is left, who is there, what a battery holds

The book is made of its events alone: whoever has the same lines has the same book. An event that
contradicts those before it is refused, so that no step is counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ampere.errors import DataError
from ampere.fleet.runs.events import (
    Account,
    Broken,
    Event,
    Joined,
    Left,
    Opened,
    Order,
    Paid,
    Planned,
    Portion,
    Sent,
)
from ampere.meters.base import Provenance

ROUNDING = 1e-6  # of a meter's total: what adding numbers up may differ by


@dataclass
class Chunk:
    """Some steps of a job on a member: running, broken, or paid."""

    sent: Sent
    broken: str | None = None
    paid: Paid | None = None

    @property
    def running(self) -> bool:
        """Whether it is still waited for."""
        return self.paid is None and self.broken is None

    @property
    def unsettled(self) -> bool:
        """Whether what it took is not known, and nobody waits for it."""
        return self.paid is None and self.broken is not None


@dataclass
class JobLine:
    """A job: how far it is, and what it took so far."""

    order: Order
    done: int = 0
    checkpoint: str | None = None
    energy_j: float = 0.0
    wasted_j: float = 0.0

    @property
    def left(self) -> int:
        """Steps that are still to be done."""
        return self.order.steps - self.done


@dataclass
class MemberLine:
    """A member: whether it is there, what its jobs took, and what its battery holds."""

    account: Account
    here: bool = False
    flat: bool = False
    why: str = "has not joined yet"
    battery_j: float | None = None
    paid_j: float = 0.0
    wasted_j: float = 0.0
    first_meter_j: float | None = None
    meter_j: float | None = None
    provenance: Provenance | None = None

    @property
    def usable_j(self) -> float:
        """What may be spent of its battery; without end on the mains."""
        if self.account.capacity_j is None:
            return math.inf
        return max(0.0, (self.battery_j or 0.0) - self.account.reserve_j)

    def read(self, meter_j: float, battery_j: float | None) -> None:
        """What its meter and its battery show; a battery that is not told lost what was metered."""
        self.meter_j = meter_j
        if battery_j is None and self.account.energy_j is not None:
            battery_j = max(0.0, self.account.energy_j - self.metered_j)
        self.battery_j = battery_j

    @property
    def metered_j(self) -> float:
        """What its meter has counted since it joined first."""
        if self.meter_j is None or self.first_meter_j is None:
            return 0.0
        return self.meter_j - self.first_meter_j

    @property
    def other_j(self) -> float:
        """What its meter counted and no job is charged for: standing idle, or other programs."""
        rest_j = self.metered_j - self.paid_j
        return 0.0 if abs(rest_j) <= ROUNDING * max(1.0, self.metered_j) else rest_j


@dataclass
class Book:
    """What the events so far come to.

    Args:
        opened: The first event.
    """

    opened: Opened
    jobs: dict[str, JobLine] = field(default_factory=dict)
    members: dict[str, MemberLine] = field(default_factory=dict)
    chunks: dict[int, Chunk] = field(default_factory=dict)
    portions: list[Portion] = field(default_factory=list)
    unplaced: dict[str, str] = field(default_factory=dict)
    plans: int = 0
    planned_s: float = 0.0  # when the last plan was taken
    reasons: list[str] = field(default_factory=list)  # why a new plan is due
    time_s: float = 0.0
    spent_j: dict[str, tuple[float, float]] = field(default_factory=dict)  # paid and at most
    _running: dict[int, Chunk] = field(default_factory=dict)
    _first: int = 1  # chunk of the plan in force

    def __post_init__(self) -> None:
        self.time_s = self.opened.time_s
        for account in self.opened.accounts:
            if account.member in self.members:
                raise DataError(f"there are two members of the name {account.member}")
            self.members[account.member] = MemberLine(account, battery_j=account.energy_j)
        for order in self.opened.orders:
            if order.job in self.jobs:
                raise DataError(f"there are two jobs of the name {order.job}")
            self.jobs[order.job] = JobLine(order)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Book:
        """The book that these events make.

        Raises:
            DataError: They contradict each other.
        """
        lines = iter(events)
        first = next(lines, None)
        if not isinstance(first, Opened):
            raise DataError("a logbook begins with what it is about")
        book = cls(first)
        for event in lines:
            book.add(event)
        return book

    # ------------------------------------------------------------------ what it knows

    def running(self) -> list[Chunk]:
        """Chunks that are waited for."""
        return list(self._running.values())

    def unsettled(self, member: str | None = None) -> list[Chunk]:
        """Broken chunks whose joules nobody knows yet."""
        return [
            chunk
            for chunk in self.chunks.values()
            if chunk.unsettled and member in (None, chunk.sent.member)
        ]

    def running_of(self, member: str) -> Chunk | None:
        """What a member is at."""
        return next((c for c in self.running() if c.sent.member == member), None)

    def running_job(self, job: str) -> Chunk | None:
        """Who is at a job."""
        return next((c for c in self.running() if c.sent.job == job), None)

    def queue(self, member: str) -> list[Portion]:
        """What a member shall still run, in order."""
        return [portion for portion in self.portions if portion.member == member]

    def unplanned(self, job: str) -> int:
        """Steps of a job that nobody has run, runs, or shall run."""
        planned = sum(portion.steps for portion in self.portions if portion.job == job)
        chunk = self.running_job(job)
        return self.jobs[job].left - planned - (chunk.sent.steps if chunk else 0)

    @property
    def next_chunk(self) -> int:
        """A number that no chunk has had."""
        return max(self.chunks, default=0) + 1

    @property
    def ended(self) -> bool:
        """Whether every job is done."""
        return all(line.left == 0 for line in self.jobs.values())

    @property
    def paid_j(self) -> float:
        """All joules so far, those for nothing among them."""
        return math.fsum(line.paid_j for line in self.members.values())

    @property
    def wasted_j(self) -> float:
        """Joules of steps that were lost, and had to be paid again."""
        return math.fsum(line.wasted_j for line in self.members.values())

    # ------------------------------------------------------------------ what it is told

    def add(self, event: Event) -> None:
        """Take an event in.

        Raises:
            DataError: It contradicts what is known; the book stays as it was.
        """
        if event.time_s < self.time_s:
            raise DataError(f"an event of {event.time_s:g} s comes after one of {self.time_s:g} s")
        match event:
            case Planned():
                self._plan(event)
            case Joined():
                self._join(event)
            case Left():
                self._leave(event)
            case Sent():
                self._send(event)
            case Paid():
                self._pay(event)
            case Broken():
                self._break(event)
            case _:
                raise DataError("a logbook is opened once")
        self.time_s = event.time_s

    def _plan(self, event: Planned) -> None:
        for job in {portion.job for portion in event.portions} | {*event.unplaced}:
            self._job(job)
        for portion in event.portions:
            self._member(portion.member)
        before = self.portions
        self.portions = list(event.portions)
        for name in self.jobs:
            if self.unplanned(name) < 0:
                self.portions = before
                raise DataError(f"job {name}: more steps are planned than are left")
        self.unplaced = dict(event.unplaced)
        self.plans += 1
        self.planned_s = event.time_s
        self.reasons.clear()
        self.spent_j.clear()
        self._first = self.next_chunk

    def _join(self, event: Joined) -> None:
        line = self._member(event.member)
        if event.device != line.account.device:
            raise DataError(f"member {event.member} joined as another device")
        if line.first_meter_j is None:
            line.first_meter_j = event.meter_j
        if event.meter_j < (line.meter_j or 0.0):
            raise DataError(f"member {event.member}: its meter went back")
        returned = not line.here
        line.here, line.flat, line.why = True, False, ""
        line.provenance = event.provenance
        line.read(event.meter_j, event.battery_j)
        if returned and self.unplaced:
            self.reasons.append(f"{event.member} is there")

    def _leave(self, event: Left) -> None:
        line = self._member(event.member)
        line.here, line.flat, line.why = False, event.flat, event.why
        if self.queue(event.member):
            self.reasons.append(f"{event.member}: {event.why}")

    def _send(self, event: Sent) -> None:
        job, _ = self._job(event.job), self._member(event.member)
        if event.chunk in self.chunks:
            raise DataError(f"chunk {event.chunk} was sent before")
        if self.running_job(event.job) is not None:
            raise DataError(f"job {event.job} runs already")
        if self.running_of(event.member) is not None:
            raise DataError(f"member {event.member} runs a chunk already")
        if event.first != job.done or event.steps > job.left:
            raise DataError(f"job {event.job} has done {job.done} steps, not {event.first}")
        self._take(event)
        self.chunks[event.chunk] = self._running[event.chunk] = Chunk(event)

    def _take(self, event: Sent) -> None:
        """The steps that are sent are no longer planned."""
        wanted = (event.job, event.member)
        places = [i for i, each in enumerate(self.portions) if (each.job, each.member) == wanted]
        if not places:
            raise DataError(f"job {event.job} is not planned for member {event.member}")
        at, portion = places[0], self.portions[places[0]]
        if event.steps > portion.steps:
            raise DataError(f"job {event.job}: {portion.steps} steps are planned for it there")
        rest = _less(portion, event.steps)
        paid_j, most_j = self.spent_j.get(event.member, (0.0, 0.0))
        self.spent_j[event.member] = (paid_j, most_j + (portion.most_j - rest.most_j))
        self.portions[at : at + 1] = [rest] if rest.steps else []

    def _pay(self, event: Paid) -> None:
        chunk = self._chunk(event.chunk)
        sent = chunk.sent
        job, member = self._job(sent.job), self._member(sent.member)
        if chunk.paid is not None:
            raise DataError(f"chunk {event.chunk} was paid before")
        if event.steps > sent.steps or (event.steps and sent.first != job.done):
            raise DataError(f"chunk {event.chunk}: steps of job {sent.job} were counted before")
        if event.meter_j < (member.meter_j or 0.0):
            raise DataError(f"member {sent.member}: its meter went back")
        late = chunk.broken is not None
        chunk.paid, chunk.broken = event, None
        self._running.pop(event.chunk, None)
        job.done += event.steps
        if late:
            self._trim(sent.job, event.steps)
        job.checkpoint = event.checkpoint or job.checkpoint
        member.read(event.meter_j, event.battery_j)
        self._charge(event, job, member)
        if event.steps < sent.steps and not late:
            self.reasons.append(f"{sent.member} did {event.steps} of {sent.steps} steps")
        self._weigh(sent.member, event)

    def _trim(self, job: str, steps: int) -> None:
        """Steps that came back after all need not be run again."""
        for i, portion in enumerate(self.portions):
            if portion.job == job and steps:
                gone = min(steps, portion.steps)
                steps -= gone
                self.portions[i] = _less(portion, gone)
        self.portions = [portion for portion in self.portions if portion.steps]

    def _charge(self, event: Paid, job: JobLine, member: MemberLine) -> None:
        member.paid_j += event.energy_j
        member.provenance = event.provenance
        job.energy_j += event.energy_j
        if not event.steps:
            job.wasted_j += event.energy_j
            member.wasted_j += event.energy_j

    def _weigh(self, name: str, event: Paid) -> None:
        """Whether what was paid since the last plan is more than the plan's interval has."""
        if event.chunk < self._first:
            return
        paid_j, most_j = self.spent_j.get(name, (0.0, 0.0))
        paid_j += event.energy_j
        self.spent_j[name] = (paid_j, most_j)
        if event.steps and paid_j > most_j and self.queue(name):
            self.reasons.append(f"{name} takes more than was estimated")

    def _break(self, event: Broken) -> None:
        chunk = self._chunk(event.chunk)
        if not chunk.running:
            raise DataError(f"chunk {event.chunk} does not run")
        chunk.broken = event.why
        del self._running[event.chunk]
        self.reasons.append(f"{chunk.sent.member}: {event.why}")

    def _job(self, name: str) -> JobLine:
        if name not in self.jobs:
            raise DataError(f"there is no job {name} in the logbook")
        return self.jobs[name]

    def _member(self, name: str) -> MemberLine:
        if name not in self.members:
            raise DataError(f"there is no member {name} in the logbook")
        return self.members[name]

    def _chunk(self, number: int) -> Chunk:
        if number not in self.chunks:
            raise DataError(f"no chunk {number} was sent")
        return self.chunks[number]


def _less(portion: Portion, steps: int) -> Portion:
    """A portion without so many of its steps."""
    left = portion.steps - steps
    share = left / portion.steps
    return replace(
        portion, steps=left, energy_j=share * portion.energy_j, most_j=share * portion.most_j
    )


def expected_j(portions: Sequence[Portion]) -> float:
    """Joules of what is planned."""
    return math.fsum(portion.energy_j for portion in portions)
