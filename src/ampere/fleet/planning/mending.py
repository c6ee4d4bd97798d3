"""Mending: a plan that holds once parts of a job run one after the other.

Queues are filled member by member, as if parts of one job could run at the same time. Where a
battery or a deadline does not hold on the timetable of all, the smallest part there goes elsewhere:
to the other members that have parts of its job, or all of the job to one, or it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ampere.fleet.planning.draft import Draft
from ampere.fleet.planning.greedy import place, place_whole
from ampere.fleet.planning.lane import Piece
from ampere.fleet.planning.problem import Problem, Sheet


def mended(problem: Problem, sheet: Sheet) -> Sheet:
    """The same plan if it holds; else a near one that does."""
    banned: set[tuple[int, int]] = set()  # parts that are not tried again,
    joined: set[int] = set()  # and tasks: so this comes to an end
    while broken := (table := problem.timetable(sheet)).broken():
        unfit = {member: _unfit(table.queues[member]) for member in broken}
        member = min(unfit, key=lambda each: unfit[each].part)
        task = unfit[member].task
        banned.add((task, member))
        draft = Draft(problem, sheet)
        draft.take(task)
        members = problem.options.member
        options = [each for each in problem.choices[task] if (task, members[each]) not in banned]
        if not place(draft, task, options) and task not in joined:
            joined.add(task)
            place_whole(draft, task, problem.choices[task])
        sheet = draft.sheet
    return sheet


def _unfit(queue: Sequence[Piece]) -> Piece:
    """The last part there; without any, the last piece: what is before it stays as it is."""
    parts = [piece for piece in queue if piece.part < 1]
    return parts[-1] if parts else queue[-1]
