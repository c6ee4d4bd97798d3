"""Fleets and jobs whose costs are known: no framework, no waiting."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import ampere
from ampere.fleet.assurance import reach_of
from ampere.fleet.costs import Costs
from ampere.fleet.lane import Piece
from ampere.fleet.objective import Objective
from ampere.fleet.problem import Problem, Sheet
from fakes import exact, plain_model

BEGINS = "2026-05-01T08:00:00+00:00"


@functools.cache
def plain_profile() -> ampere.Profile:
    """Of chains of three kinds, told exactly."""
    widths = [(8,), (64,), (8, 8), (64, 8), (8, 64), (64, 64), (16, 32, 16), (32, 16, 48)]
    return ampere.fit([exact(plain_model(*each)) for each in widths])


def task(name: str, steps: int = 1000, **settings: object) -> ampere.Task:
    """A job of a model that the profile covers."""
    return ampere.Task(name, plain_model(16, 16), ampere.Job(steps=steps), **settings)  # type: ignore[arg-type]


def member(name: str, usable_j: float | None = None, **settings: object) -> ampere.Member:
    """One with so many joules to spend, or on the mains."""
    battery = None if usable_j is None else ampere.Battery(usable_j, 2 * usable_j + 1)
    settings.setdefault("battery", battery)
    return ampere.Member(name, plain_profile(), **settings)  # type: ignore[arg-type]


def problem(
    costs: Costs,
    members: Sequence[ampere.Member],
    tasks: Sequence[ampere.Task] | None = None,
    confidence: float = 0.9,
    objective: str = "energy",
) -> Problem:
    """As `schedule` would have it."""
    named = tasks or [task(f"job{index:02}") for index in range(len(costs.energy_j))]
    fleet, reach = ampere.Fleet(tuple(members)), reach_of(confidence)
    return Problem(fleet, named, costs, reach, Objective.of(objective))


def best_by_trying(case: Problem) -> tuple[float, float]:
    """What the best of all plans of whole jobs comes to."""
    count = len(case.lanes)
    best = (math.inf, math.inf)
    for choice in itertools.product(range(count + 1), repeat=len(case.tasks)):
        sheet: Sheet = [[] for _ in range(count)]
        for index, place in enumerate(choice):
            if place < count:
                sheet[place].append(Piece(index))
        able = all(
            math.isfinite(case.costs.energy_j[piece.task, lane.index])
            for lane, queue in zip(case.lanes, sheet, strict=True)
            for piece in queue
        )
        if able and all(lane.fits(q) for lane, q in zip(case.lanes, sheet, strict=True)):
            best = min(best, case.standing(sheet))
    return best
