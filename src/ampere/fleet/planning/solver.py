"""Solver: the best plan of several ways to make one, and a bound that no plan is below.

greedy ──────────┐
relaxation ──────┼─ rounded, inserted, exchanged, mended ── the best of them
whole programme ─┘  (up to 300 tasks)

Mending looks at all members at once: parts of a job run one after the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ampere.core.arrays import Array
from ampere.fleet.planning.draft import Draft
from ampere.fleet.planning.greedy import greedy
from ampere.fleet.planning.improvement import improve, level, rounded
from ampere.fleet.planning.lane import Piece
from ampere.fleet.planning.mending import mended
from ampere.fleet.planning.objective import Objective
from ampere.fleet.planning.problem import Problem, Sheet
from ampere.fleet.planning.relaxation import MANY, ROUNDS, Mask, Relaxation, Row

WHOLE_TASKS = 300  # up to which whole programmes are tried
PATIENCE_S = 4.0  # for them; a fourth of it for exchanges of each start
WHOLE_ROUNDS = 8
LEVEL_S = 0.3
GROWING = 20  # halvings of what a pruned task may grow by


@dataclass(frozen=True)
class Solution:
    """Queues of members, and what no plan of the same jobs is below.

    The problem is the one that was solved: tasks may have been pruned.
    """

    problem: Problem
    sheet: Sheet
    bound: float
    bound_j: float


def solve(problem: Problem, patience_s: float = PATIENCE_S) -> Solution:
    """The best plan that is found; tasks are pruned only where that lets more of them in.

    Args:
        problem: What is to be planned.
        patience_s: Seconds for programmes of whole jobs, where there are few enough, and a part of
            that for exchanges.
    """
    sheet, known, tangents = _best(problem, patience_s)
    shrinking = {at: task.shrink for at, task in enumerate(problem.tasks) if task.shrink}
    if shrinking and problem.standing(sheet)[0] > 0:
        pruned = replace(problem, pruned=shrinking)
        other, *_ = _best(pruned, patience_s)
        if pruned.standing(other)[0] < problem.standing(sheet)[0]:
            problem, sheet = _grown(pruned, other)
            known, tangents = None, []
    sheet = mended(problem, sheet)
    return Solution(problem, sheet, *bounds(problem, sheet, known, patience_s, tangents))


def _best(problem: Problem, patience_s: float) -> tuple[Sheet, float | None, list[Row]]:
    """The best plan of all ways; what the relaxation came to, if a bound; lines that all keep."""
    timed = any(len(windows) > 1 for windows in problem.windows)
    relaxation = Relaxation(problem, timed=timed)
    answer = relaxation.solve() if len(problem.options) else None
    tangents = [] if timed else list(relaxation.tangents)
    few = len(problem.tasks) <= WHOLE_TASKS
    first = mended(problem, greedy(problem))
    sheets = [first, *([_improved(Draft(problem, first), patience_s)] if few else [])]
    if problem.objective.makespan and (problem.chunks > 1).any():
        sheets.append(_undivided(problem, patience_s))
    if answer is not None:
        sheets.append(_improved(rounded(problem, answer.shares), patience_s))
        if few and not _is_best(problem, sheets, answer.value):
            found, bound = _whole(problem, relaxation, patience_s)
            sheets, answer = sheets + found, replace(answer, value=max(answer.value, bound))
    best = min(sheets, key=problem.standing)
    if not problem.objective.makespan:
        best = _levelled(problem, best)
    return best, None if timed or answer is None else answer.value, tangents


def _levelled(problem: Problem, sheet: Sheet) -> Sheet:
    """The same plan with ends that are less far apart, if it holds like that."""
    draft = Draft(problem, sheet)
    level(draft, time.monotonic() + LEVEL_S)
    return sheet if problem.timetable(draft.sheet).broken() else draft.sheet


def _undivided(problem: Problem, patience_s: float) -> Sheet:
    """A plan without parts, which would wait for each other."""
    whole = replace(problem, tasks=[replace(task, chunk_steps=None) for task in problem.tasks])
    return mended(problem, _improved(Draft(whole, greedy(whole)), patience_s))


def _grown(problem: Problem, sheet: Sheet) -> tuple[Problem, Sheet]:
    """Prune no more than batteries want: what matters most grows first."""
    sheet, pruned = [list(pieces) for pieces in sheet], dict(problem.pruned)
    for task in sorted(pruned, key=lambda each: -problem.priorities[each]):
        held = [member for member, queue in enumerate(sheet) if any(p.task == task for p in queue)]
        low, high = pruned[task], 1.0
        for share in (high, *([None] * GROWING)):
            middle = (low + high) / 2 if share is None else share
            if all(_fits_grown(problem, sheet, member, task, middle) for member in held):
                low = middle
            else:
                high = middle
        pruned[task] = low
        for member in held:
            sheet[member] = _with_share(sheet[member], task, low)
    return replace(problem, pruned=pruned), sheet


def _fits_grown(problem: Problem, sheet: Sheet, member: int, task: int, share: float) -> bool:
    return problem.lanes[member].fits(_with_share(sheet[member], task, share))


def _with_share(pieces: Sequence[Piece], task: int, share: float) -> list[Piece]:
    return [each._replace(share=share) if each.task == task else each for each in pieces]


def _improved(draft: Draft, patience_s: float) -> Sheet:
    """What exchanges make of it; as it was if the end of all counts and they made that worse."""
    problem, before = draft.problem, [list(pieces) for pieces in draft.sheet]
    improve(draft, time.monotonic() + patience_s / 4)
    sheets = [draft.sheet, *([before] if problem.objective.makespan else [])]
    return min((mended(problem, each) for each in sheets), key=problem.standing)


def _is_best(problem: Problem, sheets: list[Sheet], bound: float) -> bool:
    """Whether nothing is left to be found."""
    missing, cost = min(map(problem.standing, sheets))
    return missing == 0 and cost <= bound + 1e-6 * abs(bound)


def _whole(
    problem: Problem, relaxation: Relaxation, patience_s: float
) -> tuple[list[Sheet], float]:
    """Plans of whole programmes, and their bound; tangents are added where one overdraws."""
    sheets, bound, until_s = [], -math.inf, time.monotonic() + patience_s
    for _ in range(WHOLE_ROUNDS):
        left_s = until_s - time.monotonic()
        answer = relaxation.solve_whole(left_s) if left_s > 0 else None
        if answer is None:
            break
        bound = max(bound, answer.value)
        sheets.append(_improved(rounded(problem, answer.shares), patience_s))
        overdrawn = relaxation.add_tangents(np.round(answer.shares, 6), 1e-9)
        if not relaxation.forbid(answer.shares) and not overdrawn:
            break
    return sheets, bound


def bounds(
    problem: Problem,
    sheet: Sheet,
    known: float | None,
    patience_s: float,
    tangents: Sequence[Row] = (),
) -> tuple[float, float]:
    """What no plan of the placed tasks is below: in the objective, and in joules.

    It is `known` already if all are placed; tangents that are known need not be found again.
    """
    placed = problem.placed(sheet) > 1 - 1e-9
    if not placed.any():
        return 0.0, 0.0
    if known is not None and placed.all():
        bound = known
    else:
        bound = _bound(problem, placed, patience_s, tangents)
    if problem.objective == Objective(energy=1.0):
        return bound, bound
    joules = replace(problem, objective=Objective(energy=1.0))  # whose options are others
    return bound, _bound(joules, placed, patience_s, ())


def _bound(problem: Problem, placed: Mask, patience_s: float, tangents: Sequence[Row]) -> float:
    relaxation = Relaxation(problem, costs=_least_costs(problem), tangents=list(tangents))
    known = tangents and len(problem.options) > MANY
    answer = relaxation.solve(placed, rounds=1 if known else ROUNDS)
    whole = None
    if answer is not None and len(problem.tasks) <= WHOLE_TASKS:
        whole = relaxation.solve_whole(patience_s / 4, placed)
    return max((each.value for each in (answer, whole) if each is not None), default=0.0)


def _least_costs(problem: Problem) -> Array:
    """Of options: what they come to in the best of all hours."""
    options = problem.options
    least = options.cost.copy()
    for index, member in enumerate(problem.fleet):
        if problem.objective.hourly(member):
            ours = options.member == index
            least[ours] = problem.objective.least_per_joule(member) * options.energy_j[ours]
    return least
