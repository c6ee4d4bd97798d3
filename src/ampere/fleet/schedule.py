"""schedule: the verb: jobs and devices go in, a plan comes out.

plan = ampere.schedule(fleet, tasks, confidence=0.9)
print(plan)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ampere.core.boundary.moments import parse_moment
from ampere.errors import DataError
from ampere.fleet.costs import Costs, estimate_costs
from ampere.fleet.levels import with_levels
from ampere.fleet.member import Fleet, refuse_twins
from ampere.fleet.plan import Plan
from ampere.fleet.planning.assembly import assignments_of, standings_of
from ampere.fleet.planning.assurance import reach_of
from ampere.fleet.planning.objective import Objective
from ampere.fleet.planning.problem import Problem
from ampere.fleet.planning.shortfall import unplaced_of
from ampere.fleet.planning.solver import Solution, solve
from ampere.fleet.shrinking import attainable
from ampere.fleet.task import Task
from ampere.records.measurement import utc, utc_now


def schedule(
    fleet: Fleet,
    tasks: Sequence[Task],
    *,
    confidence: float = 0.9,
    objective: str | Mapping[str, float] = "energy",
    begins: str | None = None,
    costs: Costs | None = None,
) -> Plan:
    """Plan who runs what and when, with as little of the objective as possible.

    Every battery holds for the whole queue of its member, and every deadline is kept, each with the
    asked probability. Where not all tasks fit, more of them, by priority, come first.

    Args:
        fleet: Devices, what they have learned, and what they have to spend.
        tasks: What is to be trained.
        confidence: How surely batteries shall hold and deadlines be kept.
        objective: `energy`, `carbon`, `price` or `makespan`, or weights of these.
        begins: The moment that seconds count from, ISO 8601; now if nothing is said.
        costs: What tasks take, if somebody else knows; else the members' profiles are asked.

    Raises:
        DataError: Tasks or members cannot be told apart or do not know each other, or the plan
            cannot be made of what is given.
    """
    if not tasks:
        raise DataError("there is no job to plan: give one task at least")
    refuse_twins([task.name for task in tasks], "job")
    goal = Objective.of(objective)
    goal.check(fleet)
    reach = reach_of(confidence)
    begin_s = parse_moment(utc_now() if begins is None else begins)
    if costs is None:
        tasks, texts = attainable(fleet, tasks)
        costs = estimate_costs(fleet, tasks)
        costs = replace(costs, warnings=(*costs.warnings, *texts))
    # In the order of names, so that a plan does not depend on the order in which things are given.
    rows = sorted(range(len(tasks)), key=lambda each: tasks[each].name)
    columns = sorted(range(len(fleet)), key=lambda each: fleet.members[each].name)
    problem = Problem(
        Fleet(tuple(fleet.members[each] for each in columns)),
        [tasks[each] for each in rows],
        costs.taken(rows, columns),
        reach,
        goal,
        begin_s,
    )
    plan = plan_of(solve(problem), confidence, [member.name for member in fleet])
    return with_levels(plan, fleet)


def plan_of(solution: Solution, confidence: float, names: Sequence[str]) -> Plan:
    """The plan that these queues are; members stand in the order of these names."""
    problem, sheet = solution.problem, solution.sheet
    assignments, standings = assignments_of(problem, sheet), standings_of(problem, sheet)
    energy_j = math.fsum(each.energy_j for each in assignments)
    return Plan(
        begins=utc(problem.begin_s),
        assignments=tuple(assignments),
        unplaced=tuple(unplaced_of(problem, sheet)),
        standings=tuple(sorted(standings, key=lambda each: names.index(each.member))),
        objective=str(problem.objective),
        cost=problem.cost(sheet),
        bound=solution.bound,
        energy_j=energy_j,
        bound_j=solution.bound_j,
        confidence=confidence,
        warnings=problem.costs.warnings,
    )
