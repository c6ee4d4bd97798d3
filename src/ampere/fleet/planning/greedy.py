"""Greedy: one task after the other, each where a simple rule would have it, if it fits there.

It is where improvement may start from, and what a plan has to be better than.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ampere.fleet.planning.draft import Draft
from ampere.fleet.planning.lane import LATE
from ampere.fleet.planning.problem import Problem, Sheet
from ampere.fleet.task import Task

Rule = Callable[[Draft, int], Iterable[int]]  # a task's options, the best first


def cheapest(draft: Draft, task: int) -> Iterable[int]:
    """Where it costs least."""
    return draft.problem.choices[task]


def greedy(problem: Problem, rule: Rule = cheapest) -> Sheet:
    """Tasks in the order of priority, deadline and size."""
    draft = Draft(problem)
    for task in in_order(problem):
        place(draft, task, rule(draft, task))
    return draft.sheet


def in_order(problem: Problem) -> list[int]:
    """What matters most first; of the same, what is due first; of the same, what is largest."""

    def key(task: int) -> tuple[float, float, float]:
        least = problem.options.energy_j[problem.rows[task]].min(initial=math.inf)
        due = problem.tasks[task].deadline_s
        return -problem.priorities[task], math.inf if due is None else due, -float(least)

    return sorted(range(len(problem.tasks)), key=key)


def place(draft: Draft, task: int, options: Iterable[int]) -> bool:
    """Put a task on the first option with room; one that may be divided on several.

    Where there is no room for all of it, nothing is placed.
    """
    order = list(options)
    divided = draft.problem.chunks[task] > 1 and spread(draft, task, order)
    return divided or place_whole(draft, task, order)


def place_whole(draft: Draft, task: int, options: Iterable[int]) -> bool:
    """Put a task on the first option with room for all of it."""
    rooms, members = draft.rooms(task), draft.problem.options.member
    for option in options:
        if rooms[members[option]] and draft.has_room(option):
            draft.put(option)
            return True
    return False


def spread(
    draft: Draft, task: int, options: Iterable[int], wanted: Mapping[int, int] | None = None
) -> bool:
    """Fill up the first option, then the next: a chunk costs the same as any other there.

    So the cheapest first is the cheapest of all ways to divide one task. `wanted` chunks are put
    where they shall be before.
    """
    problem, counts = draft.problem, dict[int, int]()
    order, last = list(options), None
    chunk_s = _chunk_s(problem, order)
    quickest_s = min(chunk_s.values(), default=0.0)
    for first, most in ((True, wanted or {}), (False, None)):
        for option in order:
            left = int(problem.chunks[task]) - sum(counts.values())
            limit = left if most is None else min(left, most.get(option, 0))
            spent_s = sum(count * chunk_s[other] for other, count in counts.items())
            limit = min(
                limit, _timely(problem.tasks[task], left, chunk_s[option], quickest_s, spent_s)
            )
            if limit and (option in counts or not _elsewhere(problem, counts, option)):
                had = counts.get(option, 0)
                counts[option] = most_chunks(draft, option, had + limit, had + left, had)
                last = option
        if not first and sum(counts.values()) < problem.chunks[task]:
            return False
    for option, count in counts.items():
        if count:
            draft.put(option, _part(problem, task, count, option == last))
    return True


def _part(problem: Problem, task: int, count: int, last: bool) -> float:
    """What so many chunks are of a task; the last one is what the others leave of it."""
    each, chunks = float(problem.chunk_parts[task]), int(problem.chunks[task])
    return 1.0 - each * (chunks - count) if last else each * count


def _chunk_s(problem: Problem, order: Sequence[int]) -> dict[int, float]:
    """Seconds of a chunk at each of a task's options, as surely as was asked."""
    part = float(problem.chunk_parts[problem.options.task[order[0]]]) if order else 0.0
    return {option: part * float(problem.options.sure_s[option]) for option in order}


def _timely(task: Task, left: int, each_s: float, quickest_s: float, spent_s: float) -> int:
    """How many of the chunks that are left may go where each takes so long, to be all in time.

    They run one after the other, and the rest may go to where it is quickest.
    """
    if task.deadline_s is None:
        return left
    spare_s = task.deadline_s - task.earliest_s - spent_s - left * quickest_s
    more_s = each_s - quickest_s
    if left * more_s <= spare_s + LATE * task.deadline_s:
        return left
    return max(0, math.floor(spare_s / more_s + LATE)) if more_s > 0 else 0


def _elsewhere(problem: Problem, counts: Mapping[int, int], option: int) -> bool:
    """Whether the member has another of the task's options already."""
    members = problem.options.member
    return any(count and members[other] == members[option] for other, count in counts.items())


def most_chunks(draft: Draft, option: int, most: int, whole: int, least: int = 0) -> int:
    """How many chunks have room, of so many at most; the `whole` rest has the last one."""
    problem, task = draft.problem, int(draft.problem.options.task[option])
    low, high = least, most
    while low < high:
        middle = (low + high + 1) // 2
        if draft.has_room(option, _part(problem, task, middle, middle == whole)):
            low = middle
        else:
            high = middle - 1
    return low
