"""Assembly: from pieces in queues to a plan that people read: who, when, how much, how sure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ampere.estimators.intervals import interval
from ampere.fleet.plan import Assignment, Charge, Standing
from ampere.fleet.planning.lane import Laid, Lane, Piece
from ampere.fleet.planning.problem import Problem, Sheet
from ampere.fleet.planning.timetable import Timetable


def assignments_of(problem: Problem, sheet: Sheet) -> list[Assignment]:
    """All pieces with their times and probabilities, in the order of their starts."""
    table, steps = problem.timetable(sheet), _steps(problem, sheet)
    every = [
        each
        for lane, in_time in zip(problem.lanes, table.p_deadline(), strict=True)
        for each in _of_lane(lane, table, in_time, steps)
    ]
    return sorted(every, key=lambda each: (each.start_s, each.member, each.job))


def standings_of(problem: Problem, sheet: Sheet) -> list[Standing]:
    """A line for each member; batteries are told to the end of the plan."""
    table = problem.timetable(sheet)
    return [_standing(lane, table) for lane in problem.lanes]


def _steps(problem: Problem, sheet: Sheet) -> dict[tuple[int, int], int]:
    """Whole steps of each piece (task, member): together they are all steps of the task."""
    places: dict[int, list[tuple[int, float]]] = {}
    for member, pieces in enumerate(sheet):
        for piece in pieces:
            places.setdefault(piece.task, []).append((member, piece.part))
    steps = {}
    for task, parts in places.items():
        before = 0.0
        for member, part in parts:
            whole = int(problem.costs.steps[task, member])
            first, last = round(before * whole), round((before + part) * whole)
            steps[task, member] = max(1, last - first)
            before += part
    return steps


def _of_lane(
    lane: Lane, table: Timetable, in_time: Sequence[float], steps: dict[tuple[int, int], int]
) -> list[Assignment]:
    queue, laid = table.queues[lane.index], table.expected[lane.index]
    if not queue:
        return []
    energies, battery = lane.energies_j(queue), lane.p_battery(queue, laid)
    rows = []
    for place, (piece, runs) in enumerate(zip(queue, laid, strict=True)):
        length = sum(end - start for start, end in runs)
        done, whole = 0.0, steps[piece.task, lane.index]
        for start, end in runs:
            part = (end - start) / length if length else 1.0
            count = round((done + part) * whole) - round(done * whole)
            done += part
            energy = part * float(energies[place])
            rows.append(
                Assignment(
                    job=lane.tasks[piece.task].name,
                    member=lane.member.name,
                    start_s=start,
                    end_s=end,
                    steps=max(1, count),
                    energy_j=energy,
                    energy_j_interval=interval(energy, part * lane.deviation_j([piece])),
                    p_battery=battery[place],
                    p_deadline=in_time[place],
                    share=piece.share,
                )
            )
    return rows


def _standing(lane: Lane, table: Timetable) -> Standing:
    member, battery = lane.member, lane.member.battery
    queue, laid = table.queues[lane.index], table.expected[lane.index]
    total = math.fsum(lane.energies_j(queue)) if queue else 0.0
    return Standing(
        member=member.name,
        device=member.profile.device,
        provenance=member.profile.provenance,
        energy_j=total,
        energy_j_interval=interval(total, lane.deviation_j(queue)) if queue else (0.0, 0.0),
        p_battery=min(lane.p_battery(queue, laid), default=1.0),
        capacity_j=None if battery is None else battery.capacity_j,
        reserve_j=0.0 if battery is None else battery.reserve_j,
        charges=() if battery is None else _charges(lane, queue, laid, table.end_s),
    )


def _charges(
    lane: Lane,
    queue: Sequence[Piece],
    laid: Laid,
    until_s: float,
) -> tuple[Charge, ...]:
    """The battery over time; its band is as wide as what is not known of the jobs so far."""
    path = lane.path(queue, laid, until_s)
    relative = lane.relative(queue) if queue else np.zeros(0)
    starts = np.array([runs[0][0] for runs in laid])
    order = np.argsort(starts, kind="stable")
    # At each moment, of all jobs that have begun.
    begun = np.searchsorted(starts[order], path.times_s, side="right")
    spread = np.concatenate([[0.0], relative[order]])[begun]
    reach = math.log(interval(1.0, 1.0)[1])
    at = np.arange(len(path.times_s))
    expected = path.levels_j(np.ones(1), 0.0)[:, 0]
    low = path.levels_j(np.exp(reach * spread), 0.0)[at, at]
    high = path.levels_j(np.exp(-reach * spread), 0.0)[at, at]
    return tuple(
        Charge(float(time), float(level), float(lower), float(higher))
        for time, level, lower, higher in zip(path.times_s, expected, low, high, strict=True)
    )
