"""Relaxation: the plan as a linear programme, in which jobs may be torn into parts.

    minimise    cost · x  +  penalty · y  +  makespan × T
    such that   a task's options and what is left out of it add up to 1
                each battery    tangents of what a queue stays below  ≤  what it has (assurance.py)
                each deadline   seconds of all that is due by then    ≤  seconds until then
                                seconds of a job's parts, in sequence ≤  seconds until then
                makespan        seconds of each member, of each job   ≤  T

Every plan keeps these lines, so what the programme comes to is a bound that no plan is below.
Tangents are added where the last solution overdraws. With `timed`, what happens by when is counted,
too: that guides plans around charging and cheap hours, and is no bound.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from ampere.core.arrays import Array
from ampere.fleet.member import Span
from ampere.fleet.planning.assurance import deviation, tangent, upper
from ampere.fleet.planning.lane import Lane
from ampere.fleet.planning.problem import Problem

ROUNDS = 3  # of tangents
MANY = 20_000  # options of which a bound is not sought again: that takes a second, for 0.01 %
OVERDRAWN = 1e-3  # share of a battery that calls for another tangent
SETTLED = 1e-4  # share of the value below which another round tells nothing new
DEADLINES = 12  # that are counted on each member
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Row:
    """A line of the programme: weights of options, and what they must not exceed."""

    options: npt.NDArray[np.int64]
    weights: Array
    limit: float


@dataclass(frozen=True)
class Answer:
    """Shares of options, and what no solution of the programme is below."""

    shares: Array
    value: float


@dataclass
class Relaxation:
    """The programme of a problem; tangents that were found stay in it."""

    problem: Problem
    timed: bool = False
    costs: Array | None = None  # of options; the problem's own if none are given
    tangents: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, options = self.problem, self.problem.options
        self.costs = options.cost if self.costs is None else self.costs
        self.of_member = [
            np.flatnonzero(options.member == index) for index in range(len(problem.lanes))
        ]
        self.fixed = [row for lane in problem.lanes for row in self._time_rows(lane)]
        self.fixed += self._sequence_rows()
        if not self.tangents:
            for index in range(len(problem.lanes)):
                self._add_tangent(index, np.ones(len(self.of_member[index])))

    @property
    def penalty(self) -> float:
        """What a task of the least priority costs if it is left out: more than any detour."""
        cost = self.costs
        assert cost is not None
        if not len(cost):
            return 1.0
        starts = np.unique(self.problem.options.task, return_index=True)[1]
        most, least = np.maximum.reduceat(cost, starts), np.minimum.reduceat(cost, starts)
        time = self.problem.objective.makespan * float(self.problem.options.time_s.sum())
        return float(np.abs(most).max() + (most - least).sum() + time) + 1e-9

    def solve(self, required: Mask | None = None, rounds: int = ROUNDS) -> Answer | None:
        """The best shares; of `required` tasks nothing is left out, of others everything."""
        answer = self._solve(required)
        for _ in range(rounds - 1):
            if answer is None or not self.add_tangents(answer.shares):
                return answer
            before, answer = answer, self._solve(required)
            if answer is not None and answer.value <= before.value + SETTLED * abs(before.value):
                return answer
        return answer

    def solve_whole(self, time_s: float, required: Mask | None = None) -> Answer | None:
        """The best plan with whole jobs that is found in these seconds; its value is a bound."""
        cost, matrix, lower, limit, most = self._programme(required)
        n, t = len(self.problem.options), len(self.problem.tasks)
        whole = np.ones(len(cost))
        whole[:n] = self.problem.chunks[self.problem.options.task] == 1
        whole[n + t :] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a limit of time is what was asked for
            result = milp(
                cost,
                integrality=whole,
                bounds=Bounds(np.zeros(len(cost)), most),
                constraints=LinearConstraint(matrix, lower, limit),
                options={"time_limit": time_s, "mip_rel_gap": 1e-4},
            )
        if result.x is None or result.mip_dual_bound is None:
            return None
        return Answer(result.x[:n], float(result.mip_dual_bound))

    def add_tangents(self, shares: Array, tolerance: float = OVERDRAWN) -> bool:
        """Add a line for each battery that these shares overdraw; whether there was one."""
        added = False
        for index, lane in enumerate(self.problem.lanes):
            if lane.member.battery is None:
                continue
            taken = shares[self.of_member[index]]
            limit = lane.supply_j()
            if self._upper(index, taken) > limit * (1 + tolerance) + 1e-12:
                self._add_tangent(index, taken)
                added = True
        return added

    def forbid(self, shares: Array) -> bool:
        """Add a line for each queue of whole jobs that has no room; whether there was one."""
        added = False
        for index, lane in enumerate(self.problem.lanes):
            ours = self.of_member[index]
            chosen = ours[shares[ours] > 0.5]
            whole = chosen[self.problem.chunks[self.problem.options.task[chosen]] == 1]
            if len(whole) and not lane.fits([self.problem.piece(each) for each in whole.tolist()]):
                self.tangents.append(Row(whole, np.ones(len(whole)), len(whole) - 1.0))
                added = True
        return added

    def _upper(self, index: int, taken: Array) -> float:
        lane, options = self.problem.lanes[index], self.problem.options
        rows = options.task[self.of_member[index]]
        energy = options.energy_j[self.of_member[index]] * taken
        total = float(energy.sum())
        return upper(total, deviation(energy, lane.shared[rows], lane.own[rows]), lane.reach)

    def _add_tangent(self, index: int, taken: Array) -> None:
        lane, options = self.problem.lanes[index], self.problem.options
        ours = self.of_member[index]
        if lane.member.battery is None or not len(ours) or not taken.any():
            return
        rows, energy = options.task[ours], options.energy_j[ours]
        weights = tangent(taken, energy, lane.shared[rows], lane.own[rows], lane.reach)
        self.tangents.append(Row(ours, weights, lane.supply_j()))
        if self.timed and lane.member.charging:
            self.tangents += self._charged_rows(lane, ours, weights)

    def _charged_rows(self, lane: Lane, ours: npt.NDArray[np.int64], weights: Array) -> list[Row]:
        """By the end of each window, what is taken is at most what was there and came."""
        rows = []
        for moment in self.problem.windows[lane.index][1:]:
            begun = self._within(ours, 0.0, float(moment))
            rows.append(Row(ours, weights * begun, lane.supply_j(float(moment))))
        return rows

    def _within(self, ours: npt.NDArray[np.int64], start_s: float, end_s: float) -> Array:
        """Which part of each option lies between two moments, if it begins when it may."""
        options = self.problem.options
        begin = options.release_s[ours]
        length = np.maximum(options.time_s[ours], 1e-9)
        overlap = np.minimum(begin + length, end_s) - np.maximum(begin, start_s)
        return np.asarray(np.maximum(overlap, 0.0) / length)

    def _time_rows(self, lane: Lane) -> list[Row]:
        """What is due by a moment must have room before it, and all while somebody is there."""
        problem, options = self.problem, self.problem.options
        ours = self.of_member[lane.index]
        due = np.array([problem.tasks[task].deadline_s or math.inf for task in options.task[ours]])
        moments = np.unique(due[np.isfinite(due)])
        if len(moments) > DEADLINES:
            places = np.linspace(0, len(moments) - 1, DEADLINES).astype(int)
            moments = moments[places]
        rows = []
        for moment in moments:
            before = ours[due <= moment]
            room = lane.member.slots * there_s(lane.spans, 0.0, float(moment))
            rows.append(Row(before, options.sure_s[before], room))
        if math.isfinite(lane.spans[-1].end_s):  # what is not due needs room as expected
            room = lane.member.slots * there_s(lane.spans, 0.0, math.inf)
            rows.append(Row(ours, options.time_s[ours], room))
        return rows + (self._window_rows(lane) if self.timed else [])

    def _sequence_rows(self) -> list[Row]:
        """Parts of a job that is due run one after the other."""
        problem, options = self.problem, self.problem.options
        rows = []
        for task, place in zip(problem.tasks, problem.rows, strict=True):
            ours = np.arange(place.start, place.stop)
            if task.chunk_steps is not None and task.deadline_s is not None and len(ours):
                room = task.deadline_s - task.earliest_s
                rows.append(Row(ours, options.sure_s[ours], room))
        return rows

    def _window_rows(self, lane: Lane) -> list[Row]:
        options, ours = self.problem.options, self.of_member[lane.index]
        windows = self.problem.windows[lane.index]
        rows = []
        for start, end in pairwise(windows.tolist()):
            seconds = self._within(ours, float(start), float(end)) * options.time_s[ours]
            room = lane.member.slots * there_s(lane.spans, float(start), float(end))
            rows.append(Row(ours, seconds, room))
        return rows

    def _solve(self, required: Mask | None) -> Answer | None:
        cost, matrix, _, limit, most = self._programme(required)
        t, n = len(self.problem.tasks), len(self.problem.options)
        result = linprog(
            cost,
            A_ub=matrix[t:] if matrix.shape[0] > t else None,
            b_ub=limit[t:] if matrix.shape[0] > t else None,
            A_eq=matrix[:t],
            b_eq=limit[:t],
            bounds=np.stack([np.zeros(len(cost)), most], axis=1),
            method="highs",
        )
        if result.x is None or result.status != 0:
            return None
        return Answer(result.x[:n], float(result.fun))

    def _programme(
        self, required: Mask | None
    ) -> tuple[Array, sparse.csr_matrix, Array, Array, Array]:
        """Costs, lines, what they are between, and the most of each variable.

        Variables are options, what is left out of tasks, and the makespan if it counts.
        """
        problem = self.problem
        options, t, n = problem.options, len(problem.tasks), len(problem.options)
        last = 1 if problem.objective.makespan else 0
        rows = [*self.fixed, *self.tangents]
        scale = [max(1e-300, float(np.abs(row.weights).max(initial=0.0))) for row in rows]
        tasks = sparse.csr_matrix(
            (np.ones(n + t), (np.r_[options.task, np.arange(t)], np.arange(n + t))),
            shape=(t, n + t + last),
        )
        lines = [tasks]
        if rows:
            places = np.repeat(np.arange(len(rows)), [len(row.options) for row in rows])
            columns = np.concatenate([row.options for row in rows])
            values = np.concatenate([row.weights / by for row, by in zip(rows, scale, strict=True)])
            lines.append(
                sparse.csr_matrix((values, (places, columns)), shape=(len(rows), n + t + last))
            )
        limits = [
            np.ones(t),
            np.array([row.limit / by for row, by in zip(rows, scale, strict=True)]),
        ]
        if last:
            lines.append(self._makespan_lines(n, t))
            limits.append(np.zeros(lines[-1].shape[0]))
        limit = np.concatenate(limits)
        lower = np.full(len(limit), -np.inf)
        lower[:t] = 1.0
        left_out = self.penalty * problem.priorities / problem.priorities.min()
        assert self.costs is not None
        cost = np.concatenate([self.costs, left_out, [problem.objective.makespan] * last])
        most = np.ones(len(cost))
        most[n + t :] = np.inf
        if required is not None:
            most[n : n + t] = ~required
            cost[n : n + t] = 0.0
            most[:n] = required[options.task]
        return cost, sparse.vstack(lines, format="csr"), lower, limit, most

    def _makespan_lines(self, n: int, t: int) -> sparse.csr_matrix:
        """Seconds of members, and of each task, up to the end of all."""
        options, lanes = self.problem.options, self.problem.lanes
        slots = np.array([lane.member.slots for lane in lanes])[options.member]
        work = sparse.csr_matrix(
            (options.time_s / slots, (options.member, np.arange(n))), shape=(len(lanes), n)
        )
        whole = self.problem.chunks[options.task] == 1
        earliest = np.array([task.earliest_s for task in self.problem.tasks])[options.task]
        release = np.where(whole, np.maximum(options.release_s, earliest), earliest)
        ends = release + options.time_s
        alone = sparse.csr_matrix((ends, (options.task, np.arange(n))), shape=(t, n))
        body = sparse.vstack([work, alone])
        empty = sparse.csr_matrix((body.shape[0], t))
        end = sparse.csr_matrix(-np.ones((body.shape[0], 1)))
        return sparse.hstack([body, empty, end], format="csr")


def there_s(spans: Sequence[Span], start_s: float, end_s: float) -> float:
    """Seconds for which somebody is there between two moments."""
    return math.fsum(
        max(0.0, min(span.end_s, end_s) - max(span.start_s, start_s)) for span in spans
    )
