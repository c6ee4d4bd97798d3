"""Draft: a plan while it is made: pieces come and go, and the books of each member are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ampere.core.arrays import Array
from ampere.fleet.planning.assurance import middle, upper
from ampere.fleet.planning.lane import LATE, Lane, Piece
from ampere.fleet.planning.problem import Problem, Sheet
from ampere.fleet.planning.relaxation import Mask


class Draft:
    """Queues of all members, and sums of what is in them."""

    def __init__(self, problem: Problem, sheet: Sheet | None = None) -> None:
        self.problem = problem
        self.sheet: Sheet = [[] for _ in problem.lanes]
        self.chosen: dict[int, list[int]] = {}  # options of each task that is placed
        lanes = problem.lanes
        self._supply = np.array([lane.supply_j() for lane in lanes])
        self._simple = np.array([_is_simple(lane) for lane in lanes])
        self._total, self._alone, self._single = np.zeros((3, len(lanes)))
        self._together = np.zeros((len(lanes), problem.costs.shared.shape[2]))
        self._timed = np.zeros(len(lanes), dtype=np.int64)  # pieces with a time of their own
        for member, pieces in enumerate(sheet or []):
            for piece in pieces:
                self.put(self._option(member, piece), piece.part)

    def _option(self, member: int, piece: Piece) -> int:
        rows, options = self.problem.rows[piece.task], self.problem.options
        same = (options.member[rows] == member) & (options.release_s[rows] == piece.release_s)
        return int(rows.start + np.flatnonzero(same)[0])

    def total_j(self, member: int) -> float:
        """Joules of all that a member has, as expected."""
        return float(self._total[member])

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
        self._together[member] += sign * energy * lane.shared[piece.task]

    def _energy(self, member: int, piece: Piece) -> float:
        whole = float(self.problem.costs.energy_j[piece.task, member])
        return whole * piece.part * piece.share

    def has_room(self, option: int, part: float = 1.0, without: Sequence[int] = ()) -> bool:
        """Whether a piece fits onto its member, once some tasks are gone from there."""
        member, piece = int(self.problem.options.member[option]), self.problem.piece(option, part)
        going = [each for each in self.sheet[member] if each.task in without] if without else []
        total = float(self._total[member]) + self._energy(member, piece)
        total -= sum(self._energy(member, each) for each in going)
        if total > self._supply[member] * (1 + LATE):
            return False
        lane = self.problem.lanes[member]
        if not self._sums_decide(member, piece.task):
            return lane.fits([*(each for each in self.sheet[member] if each not in going), piece])
        return lane.member.battery is None or self._suffices(member, piece, going, total)

    def _sums_decide(self, member: int, task: int) -> bool:
        timed = self._timed[member] or self.problem.timed_tasks[task]
        return bool(self._simple[member] and not timed)

    def _suffices(self, member: int, piece: Piece, going: Sequence[Piece], total: float) -> bool:
        lane = self.problem.lanes[member]
        together, alone = self._together[member], float(self._alone[member])
        single = float(self._single[member])
        for each, sign in ((piece, 1), *((each, -1) for each in going)):
            energy = self._energy(member, each)
            together = together + sign * energy * lane.shared[each.task]
            alone += sign * (energy * float(lane.own[each.task])) ** 2
            single += sign * energy * float(lane.variance[each.task])
        std = math.sqrt(max(0.0, float(together @ together) + alone))
        most = middle(single / total, std / total) * upper(total, std, lane.reach)
        return bool(most <= self._supply[member] * (1 + LATE))

    # ------------------------------------------------------------------ many at once

    def rooms(self, task: int) -> Mask:
        """Which members may have room for a whole task: where they are many, no other is asked."""
        costs, possible = self.problem.costs, self.problem.costs.possible[task]
        if self.problem.timed_tasks[task]:
            return np.asarray(possible)
        energy = np.where(possible, costs.energy_j[task], 0.0) * self.problem.shares[task]
        holds = self._hold(
            self._total + energy,
            self._together + energy[:, None] * costs.shared[:, task],
            self._alone + (energy * costs.own[task]) ** 2,
            self._single + energy * self.problem.variances[task],
            self._supply,
        )
        return np.asarray(possible & (holds | ~self._simple | (self._timed > 0)))

    def rooms_without(self, option: int, others: Sequence[int]) -> Mask:
        """Whether an option may have room once each of these whole tasks is gone from there."""
        task, member = self.problem.options.task[option], int(self.problem.options.member[option])
        if not self._sums_decide(member, int(task)):
            return np.ones(len(others), dtype=bool)
        lane, costs = self.problem.lanes[member], self.problem.costs
        energy = costs.energy_j[[task, *others], member] * self.problem.shares[[task, *others]]
        shared = energy[:, None] * lane.shared[[task, *others]]
        alone = (energy * lane.own[[task, *others]]) ** 2
        single = energy * lane.variance[[task, *others]]
        return self._hold(
            self._total[member] + energy[0] - energy[1:],
            self._together[member] + shared[0] - shared[1:],
            self._alone[member] + alone[0] - alone[1:],
            self._single[member] + single[0] - single[1:],
            self._supply[member],
        )

    def _hold(
        self, total: Array, together: Array, alone: Array, single: Array, supply: Array | float
    ) -> Mask:
        """Whether queues of these sums stay below what there is; as `_suffices`, or a bit more."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            relative = np.sqrt(np.maximum((together**2).sum(axis=1) + alone, 0.0)) / total
            middles = np.maximum(single / total - relative**2, 0.0) / 2
            most = total * np.exp(middles + self.problem.reach * relative)
            return np.asarray(most <= supply * (1 + 2 * LATE))


def _is_simple(lane: Lane) -> bool:
    """Whether only sums matter, as long as no job has a time of its own."""
    return lane.always_there and not lane.member.charging
