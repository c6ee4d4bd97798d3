"""Greedy: one task after the other, each where a simple rule would have it, if it fits there.

It is where improvement may start from, and what a plan has to be better than.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ampere.fleet.lane import Piece
from ampere.fleet.problem import Problem, Sheet

Rule = Callable[[Problem, int, Sheet], Iterable[int]]  # a task's options, the best first


def cheapest(problem: Problem, task: int, sheet: Sheet) -> Iterable[int]:
    """Where it costs least."""
    return problem.choices[task]


def greedy(problem: Problem, rule: Rule = cheapest) -> Sheet:
    """Tasks in the order of priority, deadline and size."""
    sheet: Sheet = [[] for _ in problem.lanes]
    for task in in_order(problem):
        place(problem, sheet, task, rule(problem, task, sheet))
    return sheet


def in_order(problem: Problem) -> list[int]:
    """What matters most first; of the same, what is due first; of the same, what is largest."""

    def key(task: int) -> tuple[float, float, float]:
        rows = problem.rows[task]
        largest = problem.options.energy_j[rows].min(initial=float("inf"))
        due = problem.tasks[task].deadline_s
        return -problem.priorities[task], float("inf") if due is None else due, -float(largest)

    return sorted(range(len(problem.tasks)), key=key)


def place(problem: Problem, sheet: Sheet, task: int, options: Iterable[int]) -> bool:
    """Put a task on the first option with room; one that may be divided on several.

    Where it does not fit whole, nothing is placed.
    """
    if problem.chunks[task] > 1:
        return spread(problem, sheet, task, options)
    for option in options:
        member, piece = int(problem.options.member[option]), problem.piece(option)
        if problem.lanes[member].fits([*sheet[member], piece]):
            sheet[member].append(piece)
            return True
    return False


def spread(problem: Problem, sheet: Sheet, task: int, options: Iterable[int]) -> bool:
    """Fill up the cheapest option first, then the next: chunks of a task cost all the same there."""
    left, taken = int(problem.chunks[task]), []
    used = {m for m, pieces in enumerate(sheet) for piece in pieces if piece.task == task}
    for option in options:
        member = int(problem.options.member[option])
        if member in used:
            continue
        count = most_chunks(problem, sheet[member], option, left)
        if count:
            used.add(member)
            taken.append((member, problem.piece(option, part_of(problem, task, left, count))))
            left -= count
        if not left:
            for index, piece in taken:
                sheet[index].append(piece)
            return True
    return False


def part_of(problem: Problem, task: int, left: int, count: int) -> float:
    """The part of a task that so many chunks are, of so many that are left; the last is shorter."""
    each = problem.chunk_part(task)
    whole = int(problem.chunks[task])
    if count == left:  # the shorter one is among them
        return 1 - each * (whole - count)
    return each * count


def most_chunks(problem: Problem, pieces: list[Piece], option: int, left: int) -> int:
    """How many chunks have room behind these pieces."""
    lane = problem.lanes[int(problem.options.member[option])]
    task = int(problem.options.task[option])
    low, high = 0, left
    while low < high:
        middle = (low + high + 1) // 2
        piece = problem.piece(option, part_of(problem, task, left, middle))
        if lane.fits([*pieces, piece]):
            low = middle
        else:
            high = middle - 1
    return low
