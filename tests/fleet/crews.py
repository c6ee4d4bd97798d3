"""Fleets whose costs are known, workers that train nothing, and an engine that is a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ampere.core.fingerprint import Fingerprint
from ampere.fleet.member import Battery, Fleet, Member
from ampere.fleet.plan import Assignment, Plan, Unplaced
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.engine import EngineLost, Returned, WorkerLost
from ampere.fleet.runs.logbook import Logbook
from ampere.fleet.runs.orders import (
    DONE,
    FLAT,
    INTERRUPTED,
    UNKNOWN,
    Answer,
    ChunkOrder,
    Greeting,
    Routine,
)
from ampere.fleet.runs.runner import Runner
from ampere.fleet.runs.work import Work
from ampere.fleet.task import Task
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import Job
from ampere.profiles.profile import Profile
from libraries import a_profile

BEGINS = "2026-01-01T00:00:00+00:00"
BEGINS_S = 1767225600.0
STEP_J = 2.0
OPENED: list[Logbook] = []  # whoever opens them closes them, if only at the end of a test
WORKLOAD = {"stage": "step", "model": {"model": "zoo:lenet5"}, "layers": [], "loader": None}


def identity_of(name: str) -> dict[str, str]:
    return {"device": f"simulated {name}", "parameters": "1"}


def a_member(name: str, battery_j: float | None = None, reserve_j: float = 0.0) -> Member:
    battery = None if battery_j is None else Battery(battery_j, battery_j, reserve_j)
    return Member(name, profile_of(name), battery)


def profile_of(name: str) -> Profile:
    return a_profile(identity_of(name), made_for=None)


def a_task(name: str, steps: int = 100, chunk_steps: int | None = 10, **more: object) -> Task:
    return Task(name, "zoo:lenet5", Job(steps=steps), chunk_steps=chunk_steps, **more)  # type: ignore[arg-type]


def work_for(tasks: Sequence[Task]) -> Work:
    routines = {task.name: Routine(task.job.steps or 1) for task in tasks}
    return Work(tuple(tasks), {task.name: WORKLOAD for task in tasks}, routines)


def a_plan(assignments: Sequence[Assignment], unplaced: Sequence[Unplaced] = ()) -> Plan:
    total_j = sum(each.energy_j for each in assignments)
    return Plan(
        begins=BEGINS,
        assignments=tuple(assignments),
        unplaced=tuple(unplaced),
        standings=(),
        objective="energy",
        cost=total_j,
        bound=0.0,
        energy_j=total_j,
        bound_j=0.0,
        confidence=0.9,
    )


def round_robin(fleet: Fleet, tasks: Sequence[Task], book: Book | None = None) -> Plan:
    """One after the other, without a look at joules; nothing for those that have none left."""
    able = [m for m in fleet if m.battery is None or m.battery.usable_j >= STEP_J]
    placed, unplaced = [], []
    for number, task in enumerate(tasks):
        own = [m for m in able if not task.members or m.name in task.members]
        if not own:
            unplaced.append(Unplaced(task.name, "nobody has anything left"))
            continue
        steps = task.job.steps or 1
        member, energy_j = own[number % len(own)].name, STEP_J * steps
        span_j = (0.5 * energy_j, 1.5 * energy_j)
        placed.append(Assignment(task.name, member, 0.0, 1.0, steps, energy_j, span_j))
    return a_plan(placed, unplaced)


@dataclass
class FakeWorker:
    """A station that trains nothing: a step takes so many joules, weights are a text.

    `dies_after` steps of its next chunks its process ends; a restarted one has the same tally.
    """

    name: str
    battery_j: float | None = None
    reserve_j: float = 0.0
    step_j: float = STEP_J
    dies_after: int | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance = Provenance.SIMULATED
    clock_s: float = BEGINS_S
    meter_j: float = 0.0
    trained: list[tuple[str, int]] = field(default_factory=list)
    kept: tuple[Answer, bytes] | None = None
    at: tuple[str, float] | None = None  # the chunk that it is at, and what that took
    life: int = 1

    @property
    def address(self) -> str:
        return f"tcp://{self.name}:{self.life}"

    def greet(self) -> str:
        identity = self.identity or identity_of(self.name)
        return Greeting(
            self.name,
            Fingerprint(identity),
            self.provenance,
            self.meter_j,
            self.battery_j,
            self.clock_s,
        ).text()

    def run(self, order: ChunkOrder, checkpoint: bytes | None) -> tuple[Answer, bytes] | None:
        """An answer, or None if its process ends meanwhile."""
        if self.kept is not None and self.kept[0].key == order.key:
            return self.kept
        if self.at is not None and self.at[0] == order.key:
            return self._keep(order, 0, INTERRUPTED, self.at[1], b"")
        if order.workload is None:
            return self._answer(order, 0, UNKNOWN, 0.0), b""
        assert (checkpoint or b"").decode().count(" ") == order.first
        return self._train(order, checkpoint or b"")

    def _train(self, order: ChunkOrder, weights: bytes) -> tuple[Answer, bytes] | None:
        self.at = (order.key, 0.0)
        for done in range(order.steps):
            if self.dies_after is not None and done >= self.dies_after:
                self.dies_after = None
                return None
            if self.battery_j is not None and self.battery_j - self.step_j < self.reserve_j:
                return self._keep(order, done, FLAT, self.at[1], weights)
            if self.at[1] + self.step_j > order.limit_j:
                return self._keep(order, done, FLAT, self.at[1], weights)
            self._step(order, order.first + done)
            weights += f" {order.job}".encode()
        return self._keep(order, order.steps, DONE, self.at[1], weights)

    def _step(self, order: ChunkOrder, number: int) -> None:
        assert self.at is not None
        self.meter_j += self.step_j
        if self.battery_j is not None:
            self.battery_j -= self.step_j
        self.at = (order.key, self.at[1] + self.step_j)
        self.trained.append((order.job, number))

    def _keep(
        self, order: ChunkOrder, done: int, state: str, energy_j: float, weights: bytes
    ) -> tuple[Answer, bytes]:
        self.kept = self._answer(order, done, state, energy_j), weights if done else b""
        return self.kept

    def _answer(self, order: ChunkOrder, done: int, state: str, energy_j: float) -> Answer:
        return Answer(
            order.key, state, done, energy_j, self.meter_j, self.battery_j, self.provenance
        )


class FakeEngine:
    """Brings orders to workers one at a time; `on_wait` may kill and start whatever it likes."""

    def __init__(
        self,
        workers: Sequence[FakeWorker],
        on_wait: Callable[[FakeEngine, int], None] = lambda engine, count: None,
    ) -> None:
        self.alive = {worker.name: worker for worker in workers}
        self.pending: list[tuple[int, str, ChunkOrder, bytes | None]] = []
        self.on_wait, self.waits, self.orders = on_wait, 0, 0
        self.lost = False

    def workers(self) -> Mapping[str, str]:
        if self.lost:
            raise EngineLost("the scheduler is gone")
        return {name: worker.address for name, worker in self.alive.items()}

    def greet(self, address: str) -> object:
        for worker in self.alive.values():
            if worker.address == address:
                return worker.greet()
        raise WorkerLost("gone")

    def submit(self, chunk: int, address: str, order: str, checkpoint: bytes | None) -> None:
        self.orders += 1
        self.pending.append((chunk, address, ChunkOrder.of(order), checkpoint))

    def wait(self, time_s: float) -> Sequence[Returned]:
        self.waits += 1
        assert self.waits < 5000, "it goes round in circles"
        self.on_wait(self, self.waits)
        if self.lost:
            raise EngineLost("the scheduler is gone")
        if not self.pending:
            return []
        chunk, address, order, checkpoint = self.pending.pop(0)
        worker = next((w for w in self.alive.values() if w.address == address), None)
        answer = None if worker is None else worker.run(order, checkpoint)
        if answer is None:
            self.kill_address(address)
            return [Returned(chunk, lost="the worker died")]
        return [Returned(chunk, answer[0].text(), answer[1])]

    def kill_address(self, address: str) -> None:
        self.alive = {n: w for n, w in self.alive.items() if w.address != address}

    def start(self, worker: FakeWorker) -> None:
        """A worker's process anew, with what it had on the disk."""
        worker.life += 1
        self.alive[worker.name] = worker


def open_fake(
    folder: Path,
    members: Sequence[Member],
    tasks: Sequence[Task],
    said: list[str] | None = None,
    clock: Callable[[], float] = lambda: BEGINS_S + 1.0,
    plan: Plan | None = None,
    patience_s: float = 0.0,
) -> Runner:
    fleet, work = Fleet(tuple(members)), work_for(tasks)
    logbook = Logbook(folder, work.opened(fleet, "run", BEGINS))
    OPENED.append(logbook)
    runner = Runner(
        logbook,
        fleet,
        work,
        round_robin,
        patience_s=patience_s,
        say=(said if said is not None else []).append,
        clock=clock,
    )
    runner.begin(plan or round_robin(fleet, tasks))
    return runner
