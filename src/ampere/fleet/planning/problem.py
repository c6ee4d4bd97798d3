"""Problem: tasks, members and costs as the solver sees them: options to choose from.

An option is a task on a member from some moment on. There is one for each task and member, and more
where the moment matters: before and after a battery is charged, or in hours that are cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.fleet.costs import Costs
from ampere.fleet.member import Fleet, Member
from ampere.fleet.planning.assurance import MOST
from ampere.fleet.planning.battery_path import HOLDS
from ampere.fleet.planning.lane import LATE, Lane, Piece
from ampere.fleet.planning.objective import Objective
from ampere.fleet.planning.timetable import Timetable
from ampere.fleet.task import Task

HOUR_S = 3600.0
WINDOWS = 24  # of a member; later ones are longer, since plans are made again before they come
DAY_S = 24 * HOUR_S

Sheet = list[list[Piece]]  # the pieces of each member


@dataclass(frozen=True)
class Options:
    """What may be chosen: arrays of the same length, ordered by task."""

    task: Ints
    member: Ints
    release_s: Array
    cost: Array  # of the whole task there
    energy_j: Array
    time_s: Array
    sure_s: Array  # seconds that it stays below as surely as was asked

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class Problem:
    """What is to be planned; of tasks that are pruned, the share that is left."""

    fleet: Fleet
    tasks: Sequence[Task]
    costs: Costs
    reach: float
    objective: Objective
    begin_s: float = 0.0
    pruned: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def lanes(self) -> list[Lane]:
        """The members' queues."""
        return [
            Lane(member, index, self.costs, self.tasks, self.reach)
            for index, member in enumerate(self.fleet)
        ]

    @cached_property
    def shares(self) -> Array:
        """What pruning leaves of each task's joules."""
        return np.array([self.pruned.get(index, 1.0) for index in range(len(self.tasks))])

    @cached_property
    def variances(self) -> Array:
        """Of the logarithm of what each task takes on each member (t, m)."""
        return np.stack([lane.variance for lane in self.lanes], axis=1)

    @cached_property
    def timed_tasks(self) -> list[bool]:
        """Which tasks have a time of their own."""
        return [task.deadline_s is not None or task.earliest_s > 0 for task in self.tasks]

    @cached_property
    def priorities(self) -> Array:
        """Of the tasks."""
        return np.array([task.priority for task in self.tasks])

    @cached_property
    def chunks(self) -> Ints:
        """Into how many parts a task may be divided."""
        counts = []
        for index, task in enumerate(self.tasks):
            steps = self.costs.steps[index].max()
            counts.append(1 if task.chunk_steps is None else -(-int(steps) // task.chunk_steps))
        return np.array(counts)

    @cached_property
    def chunk_parts(self) -> Array:
        """The part of each task that a chunk is: the least that runs by itself."""
        steps = self.costs.steps.max(axis=1).tolist()
        return np.array(
            [
                1.0 if task.chunk_steps is None else min(1.0, task.chunk_steps / of)
                for task, of in zip(self.tasks, steps, strict=True)
            ]
        )

    @cached_property
    def _least_parts(self) -> Array:
        """Of each task, the part that its last chunk is: no piece of it is less."""
        return 1.0 - self.chunk_parts * (self.chunks - 1)

    @cached_property
    def _affordable(self) -> npt.NDArray[np.bool_]:
        """Which task can run on which member, at least with its last chunk."""
        costs, batteries = self.costs, [member.battery for member in self.fleet]
        supply = np.array([lane.supply_j() for lane in self.lanes]) * (1 + LATE)
        supply += [0.0 if each is None else HOLDS * each.capacity_j for each in batteries]
        least = costs.energy_j * (self.shares * self._least_parts)[:, None]
        errors = np.minimum(self.reach * np.sqrt(self.variances), MOST)
        return np.asarray(costs.possible & (least * np.exp(errors) <= supply))

    @cached_property
    def windows(self) -> list[Array]:
        """Moments from which on each member's options begin."""
        return [_windows(member, self.objective, self._horizon_s) for member in self.fleet]

    @cached_property
    def _horizon_s(self) -> float:
        """Until when it matters what an hour costs: all deadlines, or a day and the work itself."""
        due = [task.deadline_s for task in self.tasks]
        if due and None not in due:
            return max(each for each in due if each is not None)
        times = np.where(self.costs.possible, self.costs.time_s, np.inf).min(axis=1, initial=np.inf)
        work = float(times[np.isfinite(times)].sum()) / len(self.fleet)
        return max(DAY_S, 2 * work)

    @cached_property
    def options(self) -> Options:
        """All that is possible by itself, ordered by task."""
        costs = self.costs
        sure = costs.time_s * np.exp(self.reach * costs.time_std)
        blocks = []
        for index, member in enumerate(self.fleet):
            tasks = np.flatnonzero(self._affordable[:, index])
            early = np.array([self.tasks[task].earliest_s for task in tasks.tolist()])
            due = np.array([_due(self.tasks[task]) for task in tasks.tolist()])
            for start_s in self.windows[index]:
                release = np.maximum(start_s, early)
                times = costs.time_s[tasks, index]
                open_ = release + self._least_parts[tasks] * sure[tasks, index] <= due * (1 + LATE)
                price = self._prices(member, release, times)
                energy = costs.energy_j[tasks, index] * self.shares[tasks]
                rows = np.stack(
                    [
                        tasks,
                        np.full(len(tasks), index),
                        np.full(len(tasks), start_s),
                        price * energy,
                        energy,
                        times,
                        sure[tasks, index],
                    ]
                )
                blocks.append(rows[:, open_])
        every = np.concatenate(blocks, axis=1)
        every = every[:, np.lexsort((every[2], every[1], every[0]))]
        whole = every[:2].astype(np.int64)
        return Options(whole[0], whole[1], *every[2:])

    def _prices(self, member: Member, release: Array, times: Array) -> Array:
        """What a joule comes to, of jobs that begin at these moments."""
        if not self.objective.hourly(member):
            return np.full(len(times), self.objective.per_joule(member, 0.0, 1.0))
        begin = self.begin_s
        return np.array(
            [
                self.objective.per_joule(member, begin + start, begin + start + time)
                for start, time in zip(release, times, strict=True)
            ]
        )

    @cached_property
    def rows(self) -> list[slice]:
        """Where each task's options stand."""
        edges = np.searchsorted(self.options.task, np.arange(len(self.tasks) + 1))
        return [slice(a, b) for a, b in pairwise(edges.tolist())]

    @cached_property
    def choices(self) -> list[list[int]]:
        """Each task's options, the cheapest first."""
        order = np.lexsort((self.options.cost, self.options.task))
        return [order[rows].tolist() for rows in self.rows]

    def piece(self, option: int, part: float = 1.0) -> Piece:
        """An option as a piece of a queue."""
        task = int(self.options.task[option])
        return Piece(task, part, float(self.shares[task]), float(self.options.release_s[option]))

    def timetable(self, sheet: Sheet) -> Timetable:
        """When all of a plan runs."""
        return Timetable.of(self.lanes, sheet)

    def cost(self, sheet: Sheet) -> float:
        """What a plan comes to: joules of pieces when they run, and when the last one ends."""
        table = self.timetable(sheet)
        total = math.fsum(self._lane_cost(lane, table) for lane in self.lanes)
        if self.objective.makespan:
            total += self.objective.makespan * table.end_s
        return total

    def _lane_cost(self, lane: Lane, table: Timetable) -> float:
        """Of one queue; where rates change by the hour, of the hours in which it really runs."""
        pieces = table.sheet[lane.index]
        if not pieces:
            return 0.0
        if not self.objective.hourly(lane.member):
            rate = self.objective.per_joule(lane.member, 0.0, 1.0)
            return rate * float(lane.energies_j(pieces).sum())
        begin = self.begin_s
        return math.fsum(
            run.energy_j
            * self.objective.per_joule(lane.member, begin + run.start_s, begin + run.end_s)
            for run in lane.runs(table.queues[lane.index], table.expected[lane.index])
        )

    def placed(self, sheet: Sheet) -> Array:
        """Which part of each task is placed."""
        parts = np.zeros(len(self.tasks))
        for pieces in sheet:
            for piece in pieces:
                parts[piece.task] += piece.part
        return parts

    def standing(self, sheet: Sheet) -> tuple[float, float]:
        """How good it is, less is better: what is not placed by priority, then the cost."""
        missing = float(self.priorities[self.placed(sheet) < 1 - 1e-9].sum())
        return round(missing, 9), self.cost(sheet)


def _due(task: Task) -> float:
    return math.inf if task.deadline_s is None else task.deadline_s


def _windows(member: Member, objective: Objective, horizon_s: float) -> Array:
    moments = {0.0}
    if member.battery is not None:
        for each in member.charging:
            length = each.span.end_s - each.span.start_s
            parts = max(1, min(4, math.ceil(length / HOUR_S)))
            moments |= {each.span.start_s + length * at / parts for at in range(parts + 1)}
    if objective.hourly(member):
        moments |= set(np.arange(0.0, horizon_s, HOUR_S).tolist())
    kept = sorted(moment for moment in moments if moment < max(horizon_s, DAY_S * 7))
    if len(kept) <= WINDOWS:
        return np.array(kept)
    near, far = kept[: WINDOWS // 2], kept[WINDOWS // 2 :]
    places = np.unique(np.linspace(0, len(far) - 1, WINDOWS - len(near)).astype(int))
    return np.array([*near, *(far[place] for place in places)])
