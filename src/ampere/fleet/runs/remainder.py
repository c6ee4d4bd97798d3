"""Remainder: what is left of the jobs, planned again on the members that are there.

A job that failed on a member is not planned there again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ampere.core.units import plural
from ampere.errors import AmpereError
from ampere.fleet.member import Fleet
from ampere.fleet.plan import Plan
from ampere.fleet.replan import Done, as_of
from ampere.fleet.runs.book import Book, MemberLine
from ampere.fleet.runs.events import Planned
from ampere.fleet.runs.turns import left_of, planned
from ampere.fleet.task import Task
from ampere.meters.base import Provenance

SOON_S = 1e-3

# Plans what is left of the jobs on those that are there; the book tells what was paid so far.
Planner: TypeAlias = Callable[[Fleet, Sequence[Task], Book], Plan]


class Remainder:
    """Plans what is left.

    Args:
        fleet: Everybody.
        tasks: All jobs, as they were at first.
        planner: Makes the plans.
        say: Told what a user should know, a line each.
    """

    def __init__(
        self, fleet: Fleet, tasks: Sequence[Task], planner: Planner, say: Callable[[str], None]
    ) -> None:
        self._fleet, self._tasks, self._planner, self._say = fleet, tasks, planner, say
        self._failed: dict[str, set[str]] = {}  # jobs, and members that cannot run them

    def failed(self, job: str, member: str) -> None:
        """A member cannot run a job, whatever the plan says."""
        self._failed.setdefault(job, set()).add(member)

    def planned(self, book: Book, time_s: float, now_s: float) -> Planned | None:
        """A plan of what is left, if one is due and somebody is there.

        Args:
            book: What was done so far, and why a plan is due.
            time_s: Of the event.
            now_s: Seconds since the first plan began.
        """
        if not book.reasons:
            return None
        why = "; ".join(dict.fromkeys(book.reasons))
        fleet, tasks = rest_of(book, self._fleet, self._tasks, now_s)
        if fleet is None or not tasks:
            return None
        kept = [each for task in tasks if (each := self._allowed(task, fleet)) is not None]
        names = {task.name for task in kept}
        nowhere = {
            task.name: "no member that may run it is there"
            for task in tasks
            if task.name not in names
        }
        event = Planned(time_s, why, (), nowhere)
        try:
            if kept:
                event = planned(self._planner(fleet, kept, book), book, why, time_s, now_s)
                event = replace(event, unplaced={**event.unplaced, **nowhere})
        except AmpereError as error:
            self._say(f"the rest cannot be planned: {error}")
            event = replace(event, unplaced={task.name: str(error) for task in tasks})
        left = plural(len(event.unplaced), "job")
        rest = f"; {left} fit nowhere" if event.unplaced else ""
        self._say(f"planned again: {why}{rest}")
        return event

    def _allowed(self, task: Task, fleet: Fleet) -> Task | None:
        """The task for those that are there and have not failed at it."""
        failed = self._failed.get(task.name, set())
        if not failed and not task.members:
            return task
        names = task.members or tuple(member.name for member in fleet)
        here = {member.name for member in fleet}
        left = tuple(name for name in names if name in here and name not in failed)
        return replace(task, members=left) if left else None


def rest_of(
    book: Book, fleet: Fleet, tasks: Sequence[Task], now_s: float
) -> tuple[Fleet | None, list[Task]]:
    """Members that are there with what they hold now, and jobs with the steps that are left."""
    here = tuple(member for member in fleet if book.members[member.name].here)
    held_j = {
        member.name: held
        for member in here
        if (held := held_by(book.members[member.name])) is not None
    }
    jobs = [
        _rest(task, book.jobs[task.name].order.steps, steps, now_s)
        for task in tasks
        if (steps := left_of(book, task.name))
    ]
    if not any(span.end_s > now_s for member in here for span in member.available):
        return None, jobs
    return as_of(Fleet(here), now_s, held_j), jobs


def done_by(book: Book) -> list[Done]:
    """What members ran of each job, and what it took there."""
    ran: dict[tuple[str, str], tuple[int, float, Provenance]] = {}
    for chunk in book.chunks.values():
        paid, key = chunk.paid, (chunk.sent.job, chunk.sent.member)
        if paid is not None and paid.steps:
            steps, energy_j, _ = ran.get(key, (0, 0.0, paid.provenance))
            ran[key] = (steps + paid.steps, energy_j + paid.energy_j, paid.provenance)
    return [
        Done(job, member, steps, energy_j or None, provenance=provenance)
        for (job, member), (steps, energy_j, provenance) in ran.items()
    ]


def held_by(line: MemberLine) -> float | None:
    """Joules in a member's battery as the logbook last heard; None on the mains."""
    if line.battery_j is None or line.account.capacity_j is None:
        return None
    return min(line.battery_j, line.account.capacity_j)


def _rest(task: Task, all_steps: int, steps: int, now_s: float) -> Task:
    earliest_s, deadline_s = max(0.0, task.earliest_s - now_s), task.deadline_s
    if deadline_s is not None:  # the planner says of one that has passed that it cannot be kept
        deadline_s = max(deadline_s - now_s, earliest_s + SOON_S)
    job = task.job.remaining(steps, all_steps)
    return replace(task, job=job, earliest_s=earliest_s, deadline_s=deadline_s)
