"""Book: joules of a running fleet per member and job: planned, running, paid, paid for nothing.

    entries ──add──▶ book ──▶ what is left, who is there, what a battery holds

The book is made of its entries alone: whoever has the same lines has the same book. An entry that
contradicts those before it is refused, so that no step is counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ampere.errors import DataError
from ampere.fleet.entries import (
    Account,
    Broken,
    Entry,
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
    """What the entries so far come to.

    Args:
        opened: The first entry.
    """

    opened: Opened
    jobs: dict[str, JobLine] = field(default_factory=dict)
    members: dict[str, MemberLine] = field(default_factory=dict)
    chunks: dict[int, Chunk] = field(default_factory=dict)
    portions: list[Portion] = field(default_factory=list)
    unplaced: dict[str, str] = field(default_factory=dict)
    plans: int = 0
    reasons: list[str] = field(default_factory=list)  # why a new plan is due
    time_s: float = 0.0
    spent_j: dict[str, tuple[float, float]] = field(default_factory=dict)  # paid and at most
    _running: dict[int, Chunk] = field(default_factory=dict)

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
    def of(cls, entries: Iterable[Entry]) -> Book:
        """The book that these entries make.

        Raises:
            DataError: They contradict each other.
        """
        lines = iter(entries)
        first = next(lines, None)
        if not isinstance(first, Opened):
            raise DataError("a logbook begins with what it is about")
        book = cls(first)
        for entry in lines:
            book.add(entry)
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

    def add(self, entry: Entry) -> None:
        """Take an entry in.

        Raises:
            DataError: It contradicts what is known; the book stays as it was.
        """
        if entry.time_s < self.time_s:
            raise DataError(f"an entry of {entry.time_s:g} s comes after one of {self.time_s:g} s")
        match entry:
            case Planned():
                self._plan(entry)
            case Joined():
                self._join(entry)
            case Left():
                self._leave(entry)
            case Sent():
                self._send(entry)
            case Paid():
                self._pay(entry)
            case Broken():
                self._break(entry)
            case _:
                raise DataError("a logbook is opened once")
        self.time_s = entry.time_s

    def _plan(self, entry: Planned) -> None:
        for job in {portion.job for portion in entry.portions} | {*entry.unplaced}:
            self._job(job)
        for portion in entry.portions:
            self._member(portion.member)
        before = self.portions
        self.portions = list(entry.portions)
        for name in self.jobs:
            if self.unplanned(name) < 0:
                self.portions = before
                raise DataError(f"job {name}: more steps are planned than are left")
        self.unplaced = dict(entry.unplaced)
        self.plans += 1
        self.reasons.clear()
        self.spent_j.clear()

    def _join(self, entry: Joined) -> None:
        line = self._member(entry.member)
        if entry.device != line.account.device:
            raise DataError(f"member {entry.member} joined as another device")
        if line.first_meter_j is None:
            line.first_meter_j = entry.meter_j
        if entry.meter_j < (line.meter_j or 0.0):
            raise DataError(f"member {entry.member}: its meter went back")
        returned = not line.here
        line.here, line.flat, line.why = True, False, ""
        line.provenance = entry.provenance
        line.read(entry.meter_j, entry.battery_j)
        if returned and self.unplaced:
            self.reasons.append(f"{entry.member} is there")

    def _leave(self, entry: Left) -> None:
        line = self._member(entry.member)
        line.here, line.flat, line.why = False, entry.flat, entry.why
        if self.queue(entry.member):
            self.reasons.append(f"{entry.member}: {entry.why}")

    def _send(self, entry: Sent) -> None:
        job, _ = self._job(entry.job), self._member(entry.member)
        if entry.chunk in self.chunks:
            raise DataError(f"chunk {entry.chunk} was sent before")
        if self.running_job(entry.job) is not None:
            raise DataError(f"job {entry.job} runs already")
        if self.running_of(entry.member) is not None:
            raise DataError(f"member {entry.member} runs a chunk already")
        if entry.first != job.done or entry.steps > job.left:
            raise DataError(f"job {entry.job} has done {job.done} steps, not {entry.first}")
        self._take(entry)
        self.chunks[entry.chunk] = self._running[entry.chunk] = Chunk(entry)

    def _take(self, entry: Sent) -> None:
        """The steps that are sent are no longer planned."""
        wanted = (entry.job, entry.member)
        places = [i for i, each in enumerate(self.portions) if (each.job, each.member) == wanted]
        if not places:
            raise DataError(f"job {entry.job} is not planned for member {entry.member}")
        at, portion = places[0], self.portions[places[0]]
        if entry.steps > portion.steps:
            raise DataError(f"job {entry.job}: {portion.steps} steps are planned for it there")
        rest = _less(portion, entry.steps)
        paid_j, most_j = self.spent_j.get(entry.member, (0.0, 0.0))
        self.spent_j[entry.member] = (paid_j, most_j + (portion.most_j - rest.most_j))
        self.portions[at : at + 1] = [rest] if rest.steps else []

    def _pay(self, entry: Paid) -> None:
        chunk = self._chunk(entry.chunk)
        sent = chunk.sent
        job, member = self._job(sent.job), self._member(sent.member)
        if chunk.paid is not None:
            raise DataError(f"chunk {entry.chunk} was paid before")
        if entry.steps > sent.steps or (entry.steps and sent.first != job.done):
            raise DataError(f"chunk {entry.chunk}: steps of job {sent.job} were counted before")
        if entry.meter_j < (member.meter_j or 0.0):
            raise DataError(f"member {sent.member}: its meter went back")
        late = chunk.broken is not None
        chunk.paid, chunk.broken = entry, None
        self._running.pop(entry.chunk, None)
        job.done += entry.steps
        if late:
            self._trim(sent.job, entry.steps)
        job.checkpoint = entry.checkpoint or job.checkpoint
        member.read(entry.meter_j, entry.battery_j)
        self._charge(entry, job, member)
        if entry.steps < sent.steps and not late:
            self.reasons.append(f"{sent.member} did {entry.steps} of {sent.steps} steps")
        self._weigh(sent.member, entry)

    def _trim(self, job: str, steps: int) -> None:
        """Steps that came back after all need not be run again."""
        for i, portion in enumerate(self.portions):
            if portion.job == job and steps:
                gone = min(steps, portion.steps)
                steps -= gone
                self.portions[i] = _less(portion, gone)
        self.portions = [portion for portion in self.portions if portion.steps]

    def _charge(self, entry: Paid, job: JobLine, member: MemberLine) -> None:
        member.paid_j += entry.energy_j
        member.provenance = entry.provenance
        job.energy_j += entry.energy_j
        if not entry.steps:
            job.wasted_j += entry.energy_j
            member.wasted_j += entry.energy_j

    def _weigh(self, name: str, entry: Paid) -> None:
        """Whether what was paid since the last plan is more than the plan's interval has."""
        paid_j, most_j = self.spent_j.get(name, (0.0, 0.0))
        paid_j += entry.energy_j
        self.spent_j[name] = (paid_j, most_j)
        if entry.steps and most_j and paid_j > most_j and self.queue(name):
            self.reasons.append(f"{name} takes more than was estimated")

    def _break(self, entry: Broken) -> None:
        chunk = self._chunk(entry.chunk)
        if not chunk.running:
            raise DataError(f"chunk {entry.chunk} does not run")
        chunk.broken = entry.why
        del self._running[entry.chunk]
        self.reasons.append(f"{chunk.sent.member}: {entry.why}")

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
