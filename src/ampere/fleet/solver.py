"""Solver: the best plan of several ways to make one, and a bound that no plan is below.

    greedy ──────────┐
    relaxation ──────┼─ rounded, inserted, exchanged ── the best of them, checked exactly
    whole programme ─┘  (up to 300 tasks)
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from ampere.core.arrays import Array
from ampere.fleet.draft import Draft
from ampere.fleet.greedy import greedy
from ampere.fleet.improvement import improve, rounded
from ampere.fleet.objective import Objective
from ampere.fleet.problem import Problem, Sheet
from ampere.fleet.relaxation import Answer, Mask, Relaxation

WHOLE_TASKS = 300  # up to which whole programmes are tried
WHOLE_S = 2.0  # for one of them
WHOLE_ROUNDS = 3
IMPROVE_S = 1.0  # for each start


@dataclass(frozen=True)
class Solution:
    """Queues of members, and what no plan of the same jobs is below."""

    sheet: Sheet
    bound: float
    bound_j: float


def solve(problem: Problem) -> Solution:
    """The best plan that is found."""
    timed = any(len(windows) > 1 for windows in problem.windows)
    relaxation = Relaxation(problem, timed=timed)
    answer = relaxation.solve() if len(problem.options) else None
    sheets = [_improved(Draft(problem, greedy(problem)))]
    if answer is not None:
        sheets.append(_improved(rounded(problem, answer.shares)))
        if len(problem.tasks) <= WHOLE_TASKS and not _is_best(problem, sheets, answer):
            sheets += _whole(problem, relaxation)
    best = min(sheets, key=problem.standing)
    return Solution(best, *bounds(problem, best, None if timed else (relaxation, answer)))


def _improved(draft: Draft) -> Sheet:
    improve(draft, time.monotonic() + IMPROVE_S)
    return draft.sheet


def _is_best(problem: Problem, sheets: list[Sheet], answer: Answer) -> bool:
    """Whether nothing is left to be found."""
    missing, cost = min(map(problem.standing, sheets))
    return missing == 0 and cost <= answer.value * (1 + 1e-6)


def _whole(problem: Problem, relaxation: Relaxation) -> list[Sheet]:
    """Plans of whole programmes; tangents are added where one overdraws a battery."""
    sheets = []
    for _ in range(WHOLE_ROUNDS):
        answer = relaxation.solve_whole(WHOLE_S)
        if answer is None:
            break
        sheets.append(_improved(rounded(problem, answer.shares)))
        if not relaxation.add_tangents(np.round(answer.shares, 6)):
            break
    return sheets


def bounds(
    problem: Problem, sheet: Sheet, solved: tuple[Relaxation, Answer | None] | None = None
) -> tuple[float, float]:
    """What no plan of the placed tasks is below: in the objective, and in joules."""
    placed = problem.placed(sheet) > 1 - 1e-9
    if not placed.any():
        return 0.0, 0.0
    if solved is not None and solved[1] is not None and placed.all():
        bound = solved[1].value
    else:
        bound = _bound(problem, placed)
    if problem.objective == Objective(energy=1.0):
        return bound, bound
    joules = replace(problem, objective=Objective(energy=1.0))
    return bound, _bound(joules, placed)


def _bound(problem: Problem, placed: Mask) -> float:
    relaxation = Relaxation(problem, costs=_least_costs(problem))
    answer = relaxation.solve(placed)
    return 0.0 if answer is None else answer.value


def _least_costs(problem: Problem) -> Array:
    """Of options: what they come to in the best of all hours."""
    options = problem.options
    least = options.cost.copy()
    for index, member in enumerate(problem.fleet):
        if problem.objective.hourly(member):
            ours = options.member == index
            least[ours] = problem.objective.least_per_joule(member) * options.energy_j[ours]
    return least
