"""Turns: which chunk each member runs next.

A member runs one chunk at a time, and a job is at one place at a time: the next chunk needs the
weights of the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ampere.errors import DataError
from ampere.fleet.member import Fleet, Member
from ampere.fleet.plan import Assignment, Plan
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.events import Planned, Portion, Sent
from ampere.fleet.task import Task


def planned(plan: Plan, book: Book, why: str, now_s: float, begins_s: float = 0.0) -> Planned:
    """A plan as an event; of each job no more than is left.

    Args:
        plan: What a planner made.
        book: What was done meanwhile.
        why: A plan was made.
        now_s: On the logbook's clock.
        begins_s: When the plan begins, on the logbook's clock.

    Raises:
        DataError: It names jobs or members that the logbook does not know.
    """
    left = {name: left_of(book, name) for name in book.jobs}
    portions = []
    for each in plan.assignments:
        if each.member not in book.members:
            raise DataError(
                f"the plan has {each.member}, which is not in the fleet: plan again with"
                " `ampere schedule`"
            )
        if each.job not in left:
            raise DataError(f"the plan has job {each.job}, which is not among the jobs: plan again")
        steps = min(each.steps, left[each.job])
        left[each.job] -= steps
        if steps:
            portions.append(_portion(each, steps, begins_s))
    unplaced = {each.job: each.reason for each in plan.unplaced if left.get(each.job)}
    for name, steps in left.items():
        if steps and name not in unplaced:
            unplaced[name] = f"{steps} of its steps are not in the plan"
    return Planned(now_s, why, tuple(portions), unplaced)


def _portion(each: Assignment, steps: int, begins_s: float) -> Portion:
    share = steps / each.steps
    most_j = max(each.energy_j, each.energy_j_interval[1])
    return Portion(
        *(each.job, each.member, steps, share * each.energy_j, share * most_j),
        max(0.0, begins_s + each.start_s),
    )


def left_of(book: Book, job: str) -> int:
    """Steps that nobody has done or is at."""
    chunk = book.running_job(job)
    return book.jobs[job].left - (chunk.sent.steps if chunk else 0)


def next_chunks(
    book: Book, fleet: Fleet, tasks: Sequence[Task], now_s: float, here: Collection[str]
) -> list[Sent]:
    """A chunk for each member that is there and idle, as far as one may begin now."""
    earliest_s = _earliest_s(tasks)
    taken: set[str] = set()
    chunks: list[Sent] = []
    for member in fleet:
        if member.name not in here:
            continue
        portion = _turn(book, member, earliest_s, taken, now_s)
        if portion is None:
            continue
        line = book.jobs[portion.job]
        steps = min(portion.steps, line.order.chunk_steps)
        expected_j = portion.energy_j * steps / portion.steps
        number = book.next_chunk + len(chunks)
        chunks.append(Sent(now_s, number, portion.job, member.name, line.done, steps, expected_j))
        taken.add(portion.job)
    return chunks


def _turn(
    book: Book, member: Member, earliest_s: Mapping[str, float], taken: set[str], now_s: float
) -> Portion | None:
    """What a member may begin now, first things first."""
    if not book.members[member.name].here or book.running_of(member.name) is not None:
        return None
    if not _in_hours(member, now_s):
        return None
    for portion in book.queue(member.name):
        if portion.job in taken or book.running_job(portion.job) is not None:
            continue
        if not _in_time(member, portion, earliest_s, now_s):
            continue
        first = next(each for each in book.portions if each.job == portion.job)
        if first is portion:
            return portion
    return None


def _in_hours(member: Member, now_s: float) -> bool:
    return any(span.start_s <= now_s < span.end_s for span in member.available)


def _in_time(
    member: Member, portion: Portion, earliest_s: Mapping[str, float], now_s: float
) -> bool:
    return now_s >= max(earliest_s[portion.job], _begin_s(member, portion))


def _begin_s(member: Member, portion: Portion) -> float:
    """A start in a plan is a guess, unless somebody waits for charge or a better hour."""
    waits = bool(member.charging) or member.carbon is not None or member.price is not None
    return portion.start_s if waits else 0.0


def early(book: Book, fleet: Fleet, tasks: Sequence[Task], now_s: float) -> set[str]:
    """Members that may not begin yet what is planned for them."""
    earliest_s = _earliest_s(tasks)
    return {
        member.name
        for member in fleet
        if (not _in_hours(member, now_s) and any(each.start_s > now_s for each in member.available))
        or not any(_in_time(member, each, earliest_s, now_s) for each in book.queue(member.name))
    }


def _earliest_s(tasks: Sequence[Task]) -> dict[str, float]:
    return {task.name: task.earliest_s for task in tasks}


def until_next(book: Book, fleet: Fleet, tasks: Sequence[Task], now_s: float) -> float | None:
    """Seconds until something that is planned may begin by itself; None if nothing will."""
    earliest_s = _earliest_s(tasks)
    moments = [
        moment
        for member in fleet
        if book.members[member.name].here
        for portion in book.queue(member.name)
        for moment in (
            earliest_s[portion.job],
            _begin_s(member, portion),
            *(span.start_s for span in member.available),
        )
        if moment > now_s
    ]
    return min(moments) - now_s if moments else None
