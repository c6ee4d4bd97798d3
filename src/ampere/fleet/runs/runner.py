"""Runner: has a plan run, chunk by chunk, and keeps the logbook of it, whatever happens.

    look ─▶ who is there, and proves it ─▶ collect answers ─▶ pay ─▶ plan again, if need be ─▶ send

Whatever is decided stands in the logbook before it is done, and whatever came back before anybody
relies on it. So a runner that was killed goes on where it was: chunks that it had sent are asked
for once more by the same number, and a worker gives the answer that it has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ampere.core.boundary.moments import parse_moment
from ampere.core.types import Json
from ampere.core.units import joules, seconds
from ampere.errors import AmpereError, DataError
from ampere.fleet.member import Fleet
from ampere.fleet.plan import Plan
from ampere.fleet.runs.admission import CLOCK_S, admitted, clock_note
from ampere.fleet.runs.book import Book, Chunk
from ampere.fleet.runs.engine import Engine, EngineLost, Returned, WorkerLost
from ampere.fleet.runs.events import MOST_J, Broken, Event, Joined, Left, Paid, Sent
from ampere.fleet.runs.logbook import Logbook
from ampere.fleet.runs.orders import FLAT, Answer, ChunkOrder, Greeting
from ampere.fleet.runs.remainder import Planner, Remainder
from ampere.fleet.runs.turns import early, next_chunks, planned, until_next
from ampere.fleet.runs.work import Work

LOOK_S = 0.5  # between two looks at who is there


class Runner:
    """Runs jobs on a fleet.

    Args:
        logbook: What happened so far, and will.
        fleet: With the profiles that workers are compared with.
        work: Its jobs.
        planner: Plans the rest when something went otherwise.
        patience_s: How long a worker is waited for that should be at work, and all of them when
            nothing else can be done.
        say: Told what a user should know, a line each.
        clock: Seconds since 1970: the one clock of all events.
    """

    def __init__(
        self,
        logbook: Logbook,
        fleet: Fleet,
        work: Work,
        planner: Planner,
        *,
        patience_s: float = 30.0,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.logbook, self.fleet, self.work = logbook, fleet, work
        self._patience_s, self._say, self._clock = patience_s, say, clock
        self._remainder = Remainder(fleet, work.tasks, planner, say)
        self._began_s = parse_moment(self.book.opened.begins)
        self._refused: set[str] = set()  # addresses
        self._here: dict[str, str] = {}  # members and addresses, as of the last look
        self._asked: dict[int, str] = {}  # chunks that are waited for, and at which address
        self._missed_s: dict[str, float] = {}  # members that are waited for, and since when
        behind_s = self.book.time_s - self._now_s()
        if behind_s > CLOCK_S and self.book.time_s > 0:
            say(
                f"this clock is {behind_s:.0f} s behind the logbook's: its times stand still until"
                " then"
            )
        elif behind_s > CLOCK_S:  # nothing has happened yet
            say(f"the plan begins in {seconds(behind_s)}")

    @property
    def book(self) -> Book:
        """What the logbook comes to."""
        return self.logbook.book

    def begin(self, plan: Plan) -> None:
        """Take a plan into a logbook that has none, or only such as are older than its beginning.

        Raises:
            DataError: It is of other jobs or members.
        """
        begins_s = parse_moment(plan.begins) - self._began_s
        if not self.book.plans or begins_s > self.book.planned_s:
            self._append(planned(plan, self.book, "the plan", self._time_s(), begins_s))

    @property
    def settled(self) -> bool:
        """Whether every job is done, and what it took is known."""
        return self.book.ended and not self.book.unsettled()

    # ------------------------------------------------------------------ the loop

    def run(self, engine: Engine) -> bool:
        """Run until every job is done, or nothing more can be; True if all are done.

        Raises:
            EngineLost: Call it again with another one.
        """
        self._here.clear()
        self._asked.clear()
        self._missed_s.clear()
        waiting_s = time.monotonic()
        while not self.book.ended:
            self._look(engine, time.monotonic() - waiting_s > self._patience_s)
            self._plan_again()
            moved = self._send(engine)
            if moved or self._asked:
                waiting_s = time.monotonic()
            elif time.monotonic() - waiting_s > self._patience_s and not self._may_begin():
                break
            for returned in engine.wait(LOOK_S):
                waiting_s = time.monotonic()
                self._collect(engine, returned)
        if self.book.ended:
            self._settle_rest(engine)
        return self.book.ended

    def _may_begin(self) -> bool:
        """Whether something begins by itself later on."""
        return until_next(self.book, self.fleet, self.work.tasks, self._now_s()) is not None

    def _settle_rest(self, engine: Engine) -> None:
        """Wait for what broken chunks took: their members may come back and say it."""
        owing = {chunk.sent.member for chunk in self.book.unsettled()}
        if owing and self._patience_s:
            self._say(f"waiting for {', '.join(sorted(owing))} to say what lost steps took")
        until_s = time.monotonic() + self._patience_s
        while self.book.unsettled() and time.monotonic() < until_s:
            self._look(engine, patience_over=False)
            for returned in engine.wait(LOOK_S):
                self._collect(engine, returned)

    # ------------------------------------------------------------------ who is there

    def _look(self, engine: Engine, patience_over: bool) -> None:
        seen = engine.workers()
        for name, address in list(self._here.items()):
            if seen.get(name) != address:
                self._lose(name, "its worker is gone")
        for name, address in seen.items():
            if name not in self._here and address not in self._refused:
                self._welcome(engine, name, address)
        self._miss(patience_over)

    def _miss(self, patience_over: bool) -> None:
        """Lose whoever was waited for long enough, whatever the others do meanwhile.

        A member that is not due yet is waited for as long as others have something to do.
        """
        lines = self.book.members
        absent = [
            name
            for name, line in lines.items()
            if name not in self._here and not line.flat and (line.here or self.book.queue(name))
        ]
        too_early = early(self.book, self.fleet, self.work.tasks, self._now_s())
        now_s = time.monotonic()
        waited_for = [name for name in absent if lines[name].here or name not in too_early]
        self._missed_s = {name: self._missed_s.get(name, now_s) for name in waited_for}
        for name in absent:
            waited_s = now_s - self._missed_s.get(name, now_s)
            if patience_over or waited_s > self._patience_s:
                self._lose(name, "its worker is not there")

    def _lose(self, name: str, why: str) -> None:
        self._here.pop(name, None)
        chunk = self.book.running_of(name)
        if chunk is not None:
            self._break(chunk, why)
        line = self.book.members[name]
        if line.here or (self.book.queue(name) and line.why != why):
            self._append(Left(self._time_s(), name, why))
            self._say(f"{name}: {why}")

    def _break(self, chunk: Chunk, why: str) -> None:
        self._asked.pop(chunk.sent.chunk, None)
        self._append(Broken(self._time_s(), chunk.sent.chunk, why))
        sent = chunk.sent
        last = sent.first + sent.steps
        self._say(
            f"{sent.member}: steps {sent.first + 1} to {last} of job {sent.job} are lost ({why})"
        )

    def _welcome(self, engine: Engine, name: str, address: str) -> None:
        try:
            greeting = Greeting.of(engine.greet(address))
            member = admitted(self.fleet, name, greeting)
            battery_j = greeting.battery_j if member.battery is not None else None
            joined = Joined(
                self._time_s(),
                name,
                member.profile.header.fingerprint.id,
                greeting.provenance,
                greeting.meter_j,
                battery_j,
            )
            self._append(joined)
        except EngineLost:
            raise
        except WorkerLost:
            return
        except AmpereError as error:
            self._refused.add(address)
            self._say(f"the worker {name} at {address} gets no work: {error}")
            return
        self._here[name] = address
        note = clock_note(name, greeting, self._clock())
        if note is not None:
            self._say(note)
        for chunk in self.book.unsettled(name):
            self._ask(engine, chunk.sent, None)
        running = self.book.running_of(name)
        if running is not None:  # of a runner or an engine before this one
            self._ask(engine, running.sent, self.work.workloads[running.sent.job])

    # ------------------------------------------------------------------ what comes back

    def _collect(self, engine: Engine, returned: Returned) -> None:
        chunk = self.book.chunks[returned.chunk]
        if returned.chunk not in self._asked:
            return  # of a worker that was lost meanwhile
        del self._asked[returned.chunk]
        sent = chunk.sent
        if chunk.paid is not None:
            return
        try:
            if returned.lost:
                raise DataError(returned.lost)
            answer = Answer.of(returned.text)
            if answer.key != self._key(sent):
                raise DataError("it answers something else than it was asked")
            self._pay(chunk, answer, returned.weights)
        except DataError as error:
            self._fail(engine, chunk, str(error))

    def _pay(self, chunk: Chunk, answer: Answer, weights: bytes) -> None:
        sent, job = chunk.sent, self.book.jobs[chunk.sent.job]
        elsewhere = self.book.running_job(sent.job) not in (None, chunk)
        counts = answer.steps and weights and sent.first == job.done and not elsewhere
        steps = min(answer.steps, sent.steps) if counts else 0
        digest = self.logbook.keep(sent.job, job.done + steps, weights) if steps else None
        battery_j = answer.battery_j if self._has_battery(sent.member) else None
        self._append(
            Paid(
                self._time_s(),
                sent.chunk,
                steps,
                answer.energy_j,
                answer.meter_j,
                answer.provenance,
                battery_j,
                digest,
            )
        )
        if steps:
            self.logbook.sweep(sent.job, job.done)
        elif answer.energy_j:
            self._say(
                f"{sent.member}: {joules(answer.energy_j)} of job {sent.job} were paid for nothing"
            )
        if answer.state == FLAT and self.book.members[sent.member].here:
            self._append(Left(self._time_s(), sent.member, "its battery is flat", flat=True))
            self._say(f"{sent.member}: its battery is down to its reserve")

    def _fail(self, engine: Engine, chunk: Chunk, why: str) -> None:
        """A chunk that gave no answer; what it took can be asked for where the worker lives on."""
        sent = chunk.sent
        if not chunk.running:  # it cannot say what a broken chunk took
            self._refused.add(self._here.get(sent.member, ""))
            self._lose(sent.member, why)
            return
        self._break(chunk, why)
        if engine.workers().get(sent.member) == self._here.get(sent.member):
            self._remainder.failed(sent.job, sent.member)
            self._ask(engine, sent, None)

    def _has_battery(self, member: str) -> bool:
        return self.book.members[member].account.capacity_j is not None

    # ------------------------------------------------------------------ what is next

    def _plan_again(self) -> None:
        event = self._remainder.planned(self.book, self._time_s(), self._now_s())
        if event is not None:
            self._append(event)

    def _send(self, engine: Engine) -> bool:
        """Send whatever may begin now."""
        chunks = next_chunks(
            self.book, self.fleet, self.work.tasks, self._now_s(), self._idle_members()
        )
        for sent in chunks:
            event = replace(sent, time_s=self._time_s())
            self._append(event)
            self._ask(engine, event, self.work.workloads[sent.job])
        return bool(chunks)

    def _idle_members(self) -> Collection[str]:
        """Those that are there and have told what every earlier chunk took."""
        owing = {chunk.sent.member for chunk in self.book.unsettled()}
        return [name for name in self._here if name not in owing]

    def _ask(self, engine: Engine, sent: Sent, workload: Mapping[str, Json] | None) -> None:
        usable_j = self.book.members[sent.member].usable_j
        limit_j = MOST_J if math.isinf(usable_j) else usable_j
        order = ChunkOrder(
            self._key(sent),
            sent.job,
            sent.first,
            sent.steps,
            limit_j,
            self.work.routines[sent.job],
            workload,
        )
        checkpoint = self.logbook.fetch(sent.job) if workload is not None else None
        self._asked[sent.chunk] = self._here[sent.member]
        engine.submit(sent.chunk, self._here[sent.member], order.text(), checkpoint)

    def _key(self, sent: Sent) -> str:
        return f"{self.book.opened.run}-{sent.chunk}"

    def _append(self, event: Event) -> None:
        self.logbook.append(event)

    # ------------------------------------------------------------------ time

    def _now_s(self) -> float:
        """Seconds since the plan begins; below 0 before that."""
        return self._clock() - self._began_s

    def _time_s(self) -> float:
        """The same for an event: a clock that was set back does not turn the book around."""
        return max(0.0, self.book.time_s, self._now_s())
