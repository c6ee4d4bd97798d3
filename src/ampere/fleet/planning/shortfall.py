"""Shortfall: why a job fits nowhere, and the least that would have to change.

Each change is looked for with all that is planned already in its place: fewer steps, more charge, a
later deadline, a smaller model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ampere.core import units
from ampere.fleet.costs import reasons_of
from ampere.fleet.plan import Unplaced
from ampere.fleet.planning.assurance import upper
from ampere.fleet.planning.lane import Lane, Piece
from ampere.fleet.planning.problem import Problem, Sheet
from ampere.fleet.shrinking import can_shrink
from ampere.fleet.task import Task

PATIENCE_S = 4.0  # for changes of all that fits nowhere; what matters most comes first
HALVINGS = 30
FEW = 0.01  # share of a job's steps below which it matters who else is there
MARGIN = 1.001  # by which a change is rounded to the safe side


@dataclass(frozen=True, order=True)
class Change:
    """How much of something would have to change, as a share of it, in words."""

    size: float
    text: str


def unplaced_of(problem: Problem, sheet: Sheet) -> list[Unplaced]:
    """What is not placed, why, and what would help: looked for once for all that are alike."""
    left = np.flatnonzero(problem.placed(sheet) < 1 - 1e-9).tolist()
    said: dict[object, tuple[str, str]] = {}
    until_s = time.monotonic() + PATIENCE_S
    for task in sorted(left, key=lambda each: -float(problem.priorities[each])):
        if _likeness(problem, task) not in said:
            change = _change(problem, sheet, task, until_s)
            said[_likeness(problem, task)] = _reason(problem, task), change
    return [Unplaced(problem.tasks[task].name, *said[_likeness(problem, task)]) for task in left]


def _likeness(problem: Problem, task: int) -> object:
    """What two jobs have in common of which the same can be said."""
    costs, asked = problem.costs, problem.tasks[task]
    model = asked.model if isinstance(asked.model, str) else id(asked.model)
    numbers = (costs.energy_j, costs.time_s, costs.own, costs.time_std, costs.steps)
    return (
        *(each[task].tobytes() for each in (*numbers, problem.shares)),
        costs.shared[:, task].tobytes(),
        *(costs.reasons.get((task, lane.index)) for lane in problem.lanes),
        *(task in each for each in (costs.unreadable, costs.uninstalled)),
        *(asked.earliest_s, asked.deadline_s, asked.chunk_steps),
        *(model, repr(asked.input), asked.training),
    )


def _able(problem: Problem, task: int) -> list[Lane]:
    return [lane for lane in problem.lanes if problem.costs.possible[task, lane.index]]


def _reason(problem: Problem, task: int) -> str:
    lanes = _able(problem, task)
    if not lanes:
        return "; ".join(reasons_of(problem.costs, problem.fleet, task))
    whole = [_pieces(problem, lane, task) for lane in lanes]
    if any(lane.fits([each]) for lane, own in zip(lanes, whole, strict=True) for each in own):
        return "there is no room for it beside the other jobs"
    free = _undated(problem, task)
    timely = any(
        Lane(lane.member, lane.index, lane.costs, free, lane.reach).fits([each])
        for lane, own in zip(lanes, whole, strict=True)
        for each in own
    )
    if timely:
        return f"no member would end it within {units.seconds(problem.tasks[task].deadline_s or 0)}"
    batteries = [lane for lane in lanes if _battery_is_short(problem, lane, task)]
    if not batteries:
        return "no member is there for long enough"
    lane = min(batteries, key=lambda each: _sure_j(each, task) / max(_usable_j(each), 1e-12))
    return (
        f"it takes up to {units.joules(_sure_j(lane, task))} on {lane.member.name}, which has"
        f" {units.joules(_usable_j(lane))} to spend; no other member comes nearer"
    )


def _battery_is_short(problem: Problem, lane: Lane, task: int) -> bool:
    """Whether it would fit on the mains, whenever it ended: otherwise time is what it lacks."""
    if lane.member.battery is None:
        return False
    member = replace(lane.member, battery=None, charging=())
    mains = Lane(member, lane.index, lane.costs, _undated(problem, task), lane.reach)
    return any(mains.fits([each]) for each in _pieces(problem, lane, task))


def _usable_j(lane: Lane) -> float:
    return 0.0 if lane.member.battery is None else lane.member.battery.usable_j


def _sure_j(lane: Lane, task: int) -> float:
    """What a task stays below by itself, as surely as was asked."""
    piece = Piece(task)
    total = float(lane.energies_j([piece])[0])
    return upper(total, lane.deviation_j([piece]), lane.reach)


def _pieces(problem: Problem, lane: Lane, task: int) -> list[Piece]:
    """The whole task there, from each moment that matters."""
    share = float(problem.shares[task])
    return [Piece(task, 1.0, share, float(start)) for start in problem.windows[lane.index]]


def _undated(problem: Problem, task: int) -> list[Task]:
    return [
        replace(each, deadline_s=None) if index == task else each
        for index, each in enumerate(problem.tasks)
    ]


def _change(problem: Problem, sheet: Sheet, task: int, until_s: float) -> str:
    """The least change of each kind, the smallest first, on the members there is time for."""
    lanes = _able(problem, task)
    if not lanes and task in problem.costs.uninstalled:
        return "install what its model needs, and plan again"
    if not lanes and task in problem.costs.unreadable:
        return "correct its model: no profile helps where it cannot be read"
    if not lanes:
        return "profile a member with this job's model, or let another member run it"
    if time.monotonic() > until_s:
        return "not looked for, since so many jobs fit nowhere"
    kinds = (_fewer_steps, _more_charge, _later)
    changes: list[list[Change]] = [[] for _ in kinds]
    looked: list[Lane] = []
    for lane in lanes:
        if looked and time.monotonic() > until_s:
            break
        looked.append(lane)
        for known, kind in zip(changes, kinds, strict=True):
            known += kind(problem, sheet, lane, task)
    found = [min(known) for known in changes if known]
    found += _pruned(problem, sheet, looked, task)
    return "; or ".join(each.text for each in sorted(found))


def _fewer_steps(problem: Problem, sheet: Sheet, lane: Lane, task: int) -> Iterator[Change]:
    queue, steps = sheet[lane.index], int(problem.costs.steps[task, lane.index])
    for whole in _pieces(problem, lane, task):
        part = _largest(partial(_fits_part, lane, queue, whole))
        kept = math.floor(part * steps)
        alone = _steps_alone(lane, whole, steps) if kept < FEW * steps else 0
        if 0 < kept < steps or alone:
            text = f"{units.number(kept)} of its {units.plural(steps, 'step')} fit on"
            rest = f" ({units.number(alone)} if it ran nothing else)" if alone > kept else ""
            yield Change(1 - part, f"{text} {lane.member.name}{rest}")


def _steps_alone(lane: Lane, whole: Piece, steps: int) -> int:
    """How many would fit if the member had nothing else to do."""
    return math.floor(_largest(partial(_fits_part, lane, [], whole)) * steps)


def _pruned(problem: Problem, sheet: Sheet, lanes: Sequence[Lane], task: int) -> list[Change]:
    """Where least would have to be cut, if widths can be cut so far there."""
    best, where = 0.0, lanes[0]
    for lane in lanes:
        for whole in _pieces(problem, lane, task):
            share = _largest(partial(_fits_share, lane, sheet[lane.index], whole))
            best, where = max((best, where), (share, lane), key=lambda each: each[0])
    share = math.floor(1000 * best) / 1000
    if not 0 < share < 1 or not can_shrink(where.member, problem.tasks[task], share):
        return []
    text = f"pruned to {units.percent(share)} of its joules it fits on {where.member.name}"
    return [Change(1 - share, text)]


def _more_charge(problem: Problem, sheet: Sheet, lane: Lane, task: int) -> Iterator[Change]:
    battery = lane.member.battery
    if battery is None:
        return
    room = battery.capacity_j - battery.energy_j

    def fits(piece: Piece, by: float) -> bool:
        charged = replace(battery, energy_j=battery.capacity_j - by * room)
        member = replace(lane.member, battery=charged)
        changed = Lane(member, lane.index, lane.costs, lane.tasks, lane.reach)
        return changed.fits([*sheet[lane.index], piece])

    for whole in _pieces(problem, lane, task):
        if room > 0 and fits(whole, 0.0):
            left_out = _largest(partial(fits, whole))
            more = min(room, MARGIN * (1 - left_out) * room)
            text = f"{units.joules(more)} more charge on {lane.member.name}"
            yield Change(more / battery.capacity_j, text)


def _later(problem: Problem, sheet: Sheet, lane: Lane, task: int) -> Iterator[Change]:
    deadline = problem.tasks[task].deadline_s
    if deadline is None:
        return
    free = Lane(lane.member, lane.index, lane.costs, _undated(problem, task), lane.reach)
    for whole in _pieces(problem, lane, task):
        pieces = [*sheet[lane.index], whole]
        if not free.fits(pieces):
            continue
        queue = free.ordered(pieces)
        laid = free.laid(queue, free.reach)
        end = MARGIN * laid[queue.index(whole)][-1][1]
        text = f"a deadline of {units.seconds(end)} on {lane.member.name}"
        yield Change(end / deadline - 1, text)


def _fits_part(lane: Lane, queue: Sequence[Piece], whole: Piece, part: float) -> bool:
    return lane.fits([*queue, whole._replace(part=part)])


def _fits_share(lane: Lane, queue: Sequence[Piece], whole: Piece, share: float) -> bool:
    return lane.fits([*queue, whole._replace(share=share)])


def _largest(fits: Callable[[float], bool]) -> float:
    """The largest part between 0 and 1 that fits."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
