"""Draft: a plan while it is made: pieces come and go, and the books of each member are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ampere.fleet.assurance import middle, upper
from ampere.fleet.lane import LATE, Lane, Piece
from ampere.fleet.problem import Problem, Sheet
from ampere.fleet.relaxation import supply_j


class Draft:
    """Queues of all members, and sums of what is in them."""

    def __init__(self, problem: Problem, sheet: Sheet | None = None) -> None:
        self.problem = problem
        self.sheet: Sheet = [[] for _ in problem.lanes]
        self.chosen: dict[int, list[int]] = {}  # options of each task that is placed
        lanes = problem.lanes
        self._supply = [
            math.inf if each.member.battery is None else supply_j(each) for each in lanes
        ]
        self._simple = [_is_simple(lane) for lane in lanes]
        self._total = [0.0] * len(lanes)
        self._alone = [0.0] * len(lanes)
        self._single = [0.0] * len(lanes)
        self._together = [np.zeros(lane.shared.shape[1]) for lane in lanes]
        self._timed = [0] * len(lanes)  # pieces that have a time of their own
        for member, pieces in enumerate(sheet or []):
            for piece in pieces:
                self.put(self._option(member, piece), piece.part)

    def _option(self, member: int, piece: Piece) -> int:
        rows, options = self.problem.rows[piece.task], self.problem.options
        same = (options.member[rows] == member) & (options.release_s[rows] == piece.release_s)
        return int(rows.start + np.flatnonzero(same)[0])

    def total_j(self, member: int) -> float:
        """Joules of all that a member has, as expected."""
        return self._total[member]

    def put(self, option: int, part: float = 1.0) -> None:
        """Add a piece."""
        member, piece = int(self.problem.options.member[option]), self.problem.piece(option, part)
        self.sheet[member].append(piece)
        self.chosen.setdefault(piece.task, []).append(option)
        self._count(member, piece, 1)

    def take(self, task: int) -> list[tuple[int, float]]:
        """Remove all pieces of a task: options and their parts."""
        taken = []
        for option in self.chosen.pop(task, ()):
            member = int(self.problem.options.member[option])
            piece = next(each for each in self.sheet[member] if each.task == task)
            self.sheet[member].remove(piece)
            self._count(member, piece, -1)
            taken.append((option, piece.part))
        return taken

    def restore(self, taken: Sequence[tuple[int, float]]) -> None:
        """Put back what was taken."""
        for option, part in taken:
            self.put(option, part)

    def _count(self, member: int, piece: Piece, sign: int) -> None:
        lane = self.problem.lanes[member]
        energy = self._energy(member, piece)
        self._timed[member] += sign * self.problem.timed_tasks[piece.task]
        self._total[member] += sign * energy
        self._alone[member] += sign * (energy * float(lane.own[piece.task])) ** 2
        self._single[member] += sign * energy * float(lane.variance[piece.task])
        self._together[member] = self._together[member] + sign * energy * lane.shared[piece.task]

    def _energy(self, member: int, piece: Piece) -> float:
        whole = float(self.problem.costs.energy_j[piece.task, member])
        return whole * piece.part * piece.share

    def has_room(self, option: int, part: float = 1.0, without: Sequence[int] = ()) -> bool:
        """Whether a piece fits onto its member, once some tasks are gone from there."""
        member, piece = int(self.problem.options.member[option]), self.problem.piece(option, part)
        going = [each for each in self.sheet[member] if each.task in without] if without else []
        total = self._total[member] + self._energy(member, piece)
        total -= sum(self._energy(member, each) for each in going)
        if total > self._supply[member] * (1 + LATE):
            return False
        lane = self.problem.lanes[member]
        timed = self._timed[member] or self.problem.timed_tasks[piece.task]
        if timed or not self._simple[member]:
            return lane.fits([*(each for each in self.sheet[member] if each not in going), piece])
        return lane.member.battery is None or self._suffices(member, piece, going, total)

    def _suffices(self, member: int, piece: Piece, going: Sequence[Piece], total: float) -> bool:
        lane = self.problem.lanes[member]
        together, alone = self._together[member], self._alone[member]
        single = self._single[member]
        for each, sign in ((piece, 1), *((each, -1) for each in going)):
            energy = self._energy(member, each)
            together = together + sign * energy * lane.shared[each.task]
            alone += sign * (energy * float(lane.own[each.task])) ** 2
            single += sign * energy * float(lane.variance[each.task])
        std = math.sqrt(max(0.0, float(together @ together) + alone))
        most = middle(single / total, std / total) * upper(total, std, lane.reach)
        return most <= self._supply[member] * (1 + LATE)


def _is_simple(lane: Lane) -> bool:
    """Whether only sums matter, as long as no job has a time of its own."""
    return lane.always_there and not lane.member.charging
