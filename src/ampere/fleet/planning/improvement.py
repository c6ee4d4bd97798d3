"""Improvement: from shares of jobs to whole ones, and then better by small exchanges.

round     whole shares stay; torn jobs go where most of them was, or where there is room
insert    a job that has no room pushes out one that has room elsewhere
exchange  a job goes where it is cheaper, and one from there makes room if need be
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from ampere.core.arrays import Array
from ampere.fleet.planning.draft import Draft
from ampere.fleet.planning.greedy import in_order, place, spread
from ampere.fleet.planning.problem import Problem

WHOLE = 0.99  # of a share that counts as all of it
TRIED = 12  # options of a job that are tried in exchanges, the cheapest of them
LEAST = 1e-9  # share of a cost that is a gain


def rounded(problem: Problem, shares: Array) -> Draft:
    """Whole jobs from shares of them."""
    draft = Draft(problem)
    best = [_by_share(problem, shares, task) for task in range(len(problem.tasks))]
    torn = []
    for task in in_order(problem):
        first = best[task][0] if best[task] else None
        sure = first is not None and problem.chunks[task] == 1 and shares[first] >= WHOLE
        if not (sure and first is not None and draft.has_room(first)):
            torn.append(task)
        else:
            draft.put(first)
    given = np.bincount(problem.options.task, shares, len(problem.tasks))

    def late(task: int) -> tuple[bool, bool]:
        return bool(given[task] < 1 - WHOLE), bool(problem.chunks[task] > 1)

    for task in sorted(torn, key=late):  # what is left out there must not take the others' room
        if problem.chunks[task] > 1:
            count = int(problem.chunks[task])
            wanted = {option: round(float(shares[option]) * count) for option in best[task]}
            spread(draft, task, best[task], wanted)
        else:
            place(draft, task, best[task])
    return draft


def _by_share(problem: Problem, shares: Array, task: int) -> list[int]:
    """A task's options: those with most of it, then the cheapest."""
    return sorted(problem.choices[task], key=lambda option: -round(float(shares[option]), 6))


def improve(draft: Draft, until_s: float) -> None:
    """Insert what is missing, then exchange as long as it gains and there is time."""
    insert_missing(draft, until_s)
    while time.monotonic() < until_s:
        gained = _exchange(draft, until_s)
        gained |= _divide_anew(draft)
        if draft.problem.objective.makespan:
            gained |= _shorten(draft, until_s, draft.problem.objective.makespan)
        if not gained:
            return


def insert_missing(draft: Draft, until_s: float) -> None:
    """Make room for tasks that have none, the most important first."""
    for task in in_order(draft.problem):
        if task in draft.chosen or time.monotonic() > until_s:
            continue
        options = draft.problem.choices[task]
        if not place(draft, task, options) and draft.problem.chunks[task] == 1:
            _push_in(draft, task)


def _push_in(draft: Draft, task: int) -> bool:
    """Put a task where another one leaves that has room elsewhere, or that matters less."""
    problem = draft.problem
    for may_drop in (False, True):
        for option in problem.choices[task]:
            others = _others(draft, option)
            for other, may_leave in zip(others, draft.rooms_without(option, others), strict=True):
                less = problem.priorities[other] < problem.priorities[task]
                if not may_leave or (may_drop and not less):
                    continue
                if not draft.has_room(option, without=[other]):
                    continue
                taken = draft.take(other)
                draft.put(option)
                if place(draft, other, problem.choices[other]) or may_drop:
                    return True
                draft.take(task)
                draft.restore(taken)
    return False


def _others(draft: Draft, option: int) -> list[int]:
    """Tasks on the option's member that are there as a whole, the smallest first."""
    member = int(draft.problem.options.member[option])
    pieces = [piece for piece in draft.sheet[member] if piece.part == 1]
    energy = draft.problem.costs.energy_j
    return [piece.task for piece in sorted(pieces, key=lambda each: energy[each.task, member])]


def _exchange(draft: Draft, until_s: float) -> bool:
    """One round over all tasks that would be cheaper elsewhere, the largest gain first."""
    problem, gained = draft.problem, False
    cost = problem.options.cost

    def regret(task: int) -> float:
        return float(cost[draft.chosen[task][0]] - cost[problem.choices[task][0]])

    tasks = [task for task in draft.chosen if problem.chunks[task] == 1]
    for task in sorted(tasks, key=lambda each: (-regret(each), each)):
        if time.monotonic() > until_s or regret(task) <= LEAST * abs(cost[draft.chosen[task][0]]):
            break
        gained |= _move_or_swap(draft, task)
    return gained


def _move_or_swap(draft: Draft, task: int) -> bool:
    problem = draft.problem
    cost, now = problem.options.cost, draft.chosen[task][0]
    rooms = draft.rooms(task)
    for option in problem.choices[task][:TRIED]:
        gain = float(cost[now] - cost[option])
        if gain <= LEAST * abs(float(cost[now])):
            return False
        member = problem.options.member[option]
        home = member == problem.options.member[now]
        if (home or rooms[member]) and draft.has_room(option, without=[task] if home else ()):
            return _settle(draft, {task: option})
        if home:
            continue
        moves = list(_leaving(draft, option, gain))
        may_leave = draft.rooms_without(option, [other for other, _ in moves])
        for (other, new), may in zip(moves, may_leave, strict=True):
            if not may or not draft.has_room(option, without=[other]):
                continue
            back = problem.options.member[new] == problem.options.member[now]
            if draft.has_room(new, without=[task] if back else ()):
                return _settle(draft, {task: option, other: new})
    return False


def _leaving(draft: Draft, option: int, gain: float) -> Iterator[tuple[int, int]]:
    """Tasks that could leave the option's member, and where to: what loses least first."""
    problem = draft.problem
    options = problem.options
    member = int(options.member[option])
    moves = []
    for piece in draft.sheet[member]:
        if piece.part != 1:
            continue
        held = options.cost[draft.chosen[piece.task][0]]
        for new in problem.choices[piece.task][:TRIED]:
            loss = float(options.cost[new] - held)
            if loss >= gain * (1 - LEAST):
                break
            if options.member[new] != member:
                moves.append((loss, piece.task, new))
    for _, other, new in sorted(moves):
        yield other, new


def _settle(draft: Draft, moves: dict[int, int]) -> bool:
    """Move tasks to their new options."""
    for task in moves:
        draft.take(task)
    for option in moves.values():
        draft.put(option)
    return True


def _divide_anew(draft: Draft) -> bool:
    """Divide each task that may be divided once more, with the room that there is now."""
    problem, gained = draft.problem, False
    for task in [each for each in draft.chosen if problem.chunks[each] > 1]:
        taken = draft.take(task)
        before = sum(part * problem.options.cost[option] for option, part in taken)
        better = spread(draft, task, problem.choices[task])
        if better and _cost_of(draft, task) >= before - LEAST * abs(before):
            draft.take(task)
            better = False
        if not better:
            draft.restore(taken)
        gained |= better
    return gained


def _cost_of(draft: Draft, task: int) -> float:
    """What a task comes to as it is placed."""
    total = 0.0
    for option in draft.chosen[task]:
        member = draft.problem.options.member[option]
        part = next(each.part for each in draft.sheet[member] if each.task == task)
        total += part * float(draft.problem.options.cost[option])
    return total


def level(draft: Draft, until_s: float) -> None:
    """Let members end together, as far as that costs nothing."""
    _shorten(draft, until_s, weight=0.0)


def _shorten(draft: Draft, until_s: float, weight: float) -> bool:
    """Move jobs away from the member that ends last, as long as that gains."""
    problem, gained = draft.problem, False
    pairs = zip(problem.lanes, draft.sheet, strict=True)
    ends = [lane.end_s(pieces) for lane, pieces in pairs]
    while time.monotonic() < until_s:
        last = max(range(len(ends)), key=ends.__getitem__)
        moves = sorted(_shortening(draft, until_s, last, ends, weight))
        if not moves:
            break
        _, _, task, option = moves[0]
        gained = _settle(draft, {task: option})
        for member in (last, int(problem.options.member[option])):
            ends[member] = problem.lanes[member].end_s(draft.sheet[member])
    return gained


def _shortening(
    draft: Draft, until_s: float, last: int, ends: Sequence[float], weight: float
) -> Iterator[tuple[float, float, int, int]]:
    """Moves that gain: what they change of the cost, when both members then end, and the move."""
    problem = draft.problem
    options = problem.options
    for piece in [each for each in draft.sheet[last] if each.part == 1]:
        if time.monotonic() > until_s:
            return
        held = float(options.cost[draft.chosen[piece.task][0]])
        stay = problem.lanes[last].end_s([each for each in draft.sheet[last] if each is not piece])
        for option in problem.choices[piece.task]:
            more = float(options.cost[option]) - held
            member = int(options.member[option])
            if more - weight * (ends[last] - stay) > -LEAST * abs(held) * (weight > 0):
                break  # those after it are dearer still
            if member == last:
                continue
            queue = [*draft.sheet[member], problem.piece(option)]
            then = max(stay, problem.lanes[member].end_s(queue))
            change = more + weight * (then - ends[last])
            gains = change < -LEAST * abs(held) if weight else then < ends[last] * (1 - LEAST)
            if gains and draft.has_room(option):
                yield change, then, piece.task, option
