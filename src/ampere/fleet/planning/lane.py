"""Lane: the queue of one member: in which order, from when to when, and whether it holds.

        slot 1  ▇▇▇▇▇▇▇▇  ▇▇▇▇▇▇        those that are due first run first, none before its start;
        slot 2  ▇▇▇▇▇▇▇▇▇▇▇▇▇ ▇▇▇▇      what must not be divided runs within one span

Seconds of one member have one error, so all of its jobs are late or early together: its queue is
laid for so many standard deviations (`reach`) at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np

from ampere.core.arrays import Array
from ampere.fleet.costs import Costs
from ampere.fleet.member import Member, Span
from ampere.fleet.planning.assurance import SURE, deviation, middle, probability, upper
from ampere.fleet.planning.battery_path import BatteryPath, Run
from ampere.fleet.task import Task

LATE = 1e-9  # share of a deadline that is rounding
REACHES = np.linspace(-SURE, SURE, 65)  # standard deviations for which ends are looked at

Laid: TypeAlias = Sequence[Sequence[tuple[float, float]]]  # from when to when each piece runs


class Piece(NamedTuple):
    """A task, or a part of it, in a queue.

    `part` is of its steps, `share` is what pruning leaves of its joules, and it does not begin
    before `release_s`.
    """

    task: int
    part: float = 1.0
    share: float = 1.0
    release_s: float = 0.0


@dataclass(frozen=True)
class Lane:
    """A member, what tasks take on it, and how sure it has to be."""

    member: Member
    index: int
    costs: Costs
    tasks: Sequence[Task]
    reach: float

    @cached_property
    def spans(self) -> list[Span]:
        """When it is there: in order, and without overlaps."""
        merged: list[Span] = []
        for span in sorted(self.member.available, key=lambda each: each.start_s):
            if merged and span.start_s <= merged[-1].end_s:
                merged[-1] = Span(merged[-1].start_s, max(merged[-1].end_s, span.end_s))
            else:
                merged.append(span)
        return merged

    @cached_property
    def always_there(self) -> bool:
        """Whether it waits for nothing but jobs."""
        return self.spans[0].start_s == 0 and math.isinf(self.spans[0].end_s)

    @cached_property
    def shared(self) -> Array:
        """Shared errors of its tasks."""
        return np.ascontiguousarray(self.costs.shared[self.index])

    @cached_property
    def own(self) -> Array:
        """Errors that tasks have by themselves."""
        return np.ascontiguousarray(self.costs.own[:, self.index])

    @cached_property
    def variance(self) -> Array:
        """Of each task by itself."""
        return np.asarray((self.shared**2).sum(axis=1) + self.own**2)

    def supply_j(self, until_s: float = math.inf) -> float:
        """What it may spend up to a moment, if its battery were never too full to be charged."""
        battery = self.member.battery
        if battery is None:
            return math.inf
        charged = math.fsum(
            each.power_w * max(0.0, min(each.span.end_s, until_s) - each.span.start_s)
            for each in self.member.charging
        )
        return max(0.0, battery.energy_j + charged - battery.reserve_j)

    def energies_j(self, pieces: Sequence[Piece]) -> Array:
        """Joules of each piece, as expected."""
        rows = [piece.task for piece in pieces]
        by = np.array([piece.part * piece.share for piece in pieces])
        return np.asarray(self.costs.energy_j[rows, self.index] * by)

    def deviation_j(self, pieces: Sequence[Piece]) -> float:
        """The standard deviation of what the pieces take together."""
        rows = [piece.task for piece in pieces]
        return deviation(self.energies_j(pieces), self.shared[rows], self.own[rows])

    def release_s(self, piece: Piece) -> float:
        """When it may begin."""
        return max(piece.release_s, self.tasks[piece.task].earliest_s)

    def due_s(self, piece: Piece) -> float:
        """When it must have ended."""
        deadline = self.tasks[piece.task].deadline_s
        return math.inf if deadline is None else deadline

    def duration_s(self, piece: Piece, reach: float = 0.0) -> float:
        """Seconds that it takes; pruning is not taken to make it faster."""
        time_s = piece.part * float(self.costs.time_s[piece.task, self.index])
        return time_s * math.exp(reach * float(self.costs.time_std[piece.task, self.index]))

    def by_urgency(self, pieces: Sequence[Piece]) -> list[Piece]:
        """What is due first comes first; of the same, what may begin first."""
        return sorted(pieces, key=lambda piece: (self.due_s(piece), self.release_s(piece), piece))

    def ordered(self, pieces: Sequence[Piece]) -> list[Piece]:
        """As they are taken up: of those that may begin, the one that is due first."""
        waiting = self.by_urgency(pieces)
        if all(self.release_s(piece) <= self.spans[0].start_s for piece in pieces):
            return waiting
        queue, laying = [], Laying(self)
        while waiting:
            now = min(map(laying.ready_s, waiting))
            piece = next(each for each in waiting if laying.ready_s(each) <= now)
            waiting.remove(piece)
            queue.append(piece)
            laying.lay(piece)
        return queue

    def laid(self, queue: Sequence[Piece], reach: float = 0.0) -> Laid:
        """From when to when each runs, in this order; without an end if it never gets there."""
        laying = Laying(self, reach)
        return [laying.lay(piece) for piece in queue]

    def runs_from(self, piece: Piece, start_s: float, reach: float) -> list[tuple[float, float]]:
        """From this moment on: within one span, or chunk by chunk over several."""
        length, sure = self.duration_s(piece, reach), self.duration_s(piece, self.reach)
        if self.always_there:
            return [(start_s, start_s + length)]
        chunk = self._chunk_share(piece)
        left, runs = 1.0, []
        for span in self.spans:
            begin = max(start_s, span.start_s)
            room = (span.end_s - begin) / sure if sure else math.inf
            if begin >= span.end_s or room < min(left, chunk) * (1 - LATE):
                continue
            part = left if room >= left * (1 - LATE) else chunk * math.floor(room / chunk + LATE)
            start_s = begin + part * length  # what is late delays its own rest, too
            runs.append((begin, start_s))
            left -= part
            if left <= LATE:
                return runs
        return [*runs, (math.inf, math.inf)]

    def _chunk_share(self, piece: Piece) -> float:
        """The least part of a piece that may run by itself."""
        chunk = self.tasks[piece.task].chunk_steps
        steps = piece.part * float(self.costs.steps[piece.task, self.index])
        return 1.0 if chunk is None else min(1.0, chunk / steps)

    def fits(self, pieces: Sequence[Piece]) -> bool:
        """Whether deadlines and the battery hold as surely as was asked."""
        if not pieces:
            return True
        queue = self.ordered(pieces) if self._waits(pieces) or self._is_due(pieces) else pieces
        laid = self.laid(queue) if self._waits(pieces) else []
        sure = self.laid(queue, self.reach) if self._is_due(pieces) else []
        return self.holds(queue, laid, sure)

    def holds(self, queue: Sequence[Piece], laid: Laid, sure: Laid) -> bool:
        """The same of a queue that is laid out: as expected, and as surely as was asked.

        Where nothing waits or nothing is due, it does not matter how that is laid.
        """
        if any(math.isinf(runs[-1][1]) for runs in laid):
            return False
        if self._is_due(queue) and not self._in_time(queue, sure):
            return False
        return self._lasts(queue, laid) if self._waits(queue) else self._suffices(queue)

    def _waits(self, pieces: Sequence[Piece]) -> bool:
        """Whether when jobs run matters to whether they can."""
        if not self.always_there:
            return True
        if self.member.battery is None or not (self.member.charging or self.member.idle_w):
            return False
        return bool(self.member.charging) or any(
            self.release_s(piece) > 0 or piece.part < 1 for piece in pieces
        )

    def _is_due(self, pieces: Sequence[Piece]) -> bool:
        return any(math.isfinite(self.due_s(piece)) for piece in pieces)

    def _in_time(self, queue: Sequence[Piece], sure: Laid) -> bool:
        return all(
            runs[-1][1] <= self.due_s(piece) * (1 + LATE)
            for piece, runs in zip(queue, sure, strict=True)
        )

    def _suffices(self, pieces: Sequence[Piece]) -> bool:
        """Of a battery that nobody charges, and that nothing but jobs empties."""
        battery = self.member.battery
        if battery is None:
            return True
        total, std = float(self.energies_j(pieces).sum()), self.deviation_j(pieces)
        most = self.middles(pieces)[-1] * upper(total, std, self.reach)
        return bool(most <= battery.usable_j * (1 + LATE))

    def _lasts(self, queue: Sequence[Piece], laid: Laid) -> bool:
        if self.member.battery is None:
            return True
        path = self.path(queue, laid)
        relative = self.relative(queue)
        ends = np.array([runs[-1][1] for runs in laid])
        scales = self.middles(queue) * np.exp(self.reach * relative)
        return bool(path.lasts(scales, ends).all())

    def relative(self, queue: Sequence[Piece]) -> Array:
        """Relative deviations of what the first one, two, three... pieces take together."""
        energies = self.energies_j(queue)
        rows = [piece.task for piece in queue]
        together = np.cumsum(energies[:, None] * self.shared[rows], axis=0)
        alone = np.cumsum((energies * self.own[rows]) ** 2)
        return np.asarray(np.sqrt((together**2).sum(axis=1) + alone) / np.cumsum(energies))

    def middles(self, queue: Sequence[Piece]) -> Array:
        """How many times what is expected the first one, two, three... pieces come to."""
        energies = self.energies_j(queue)
        single = np.cumsum(energies * self.variance[[piece.task for piece in queue]])
        means = single / np.cumsum(energies)
        return np.array([middle(*each) for each in zip(means, self.relative(queue), strict=True)])

    def path(
        self,
        queue: Sequence[Piece],
        laid: Laid,
        until_s: float = 0.0,
    ) -> BatteryPath:
        """What the queue does to the battery, told to this moment at least."""
        battery = self.member.battery
        assert battery is not None
        runs = self.runs(queue, laid)
        return BatteryPath(battery, self.member.charging, self.member.idle_w, runs, until_s)

    def runs(self, queue: Sequence[Piece], laid: Laid) -> list[Run]:
        """All that runs, with its joules."""
        runs = []
        for place, (spans, energy_j) in enumerate(zip(laid, self.energies_j(queue), strict=True)):
            length = sum(end - start for start, end in spans)
            for start, end in spans:
                part = (end - start) / length if length else 1 / len(spans)
                runs.append(Run(place, start, end, float(energy_j) * part))
        return runs

    def end_s(self, pieces: Sequence[Piece]) -> float:
        """When the last one ends, as expected."""
        free = all(self.release_s(piece) == 0 for piece in pieces)
        if self.always_there and self.member.slots == 1 and free:
            return sum(self.duration_s(piece) for piece in pieces)
        laid = self.laid(self.ordered(pieces))
        return max((runs[-1][1] for runs in laid), default=0.0)

    def p_battery(self, queue: Sequence[Piece], laid: Laid) -> list[float]:
        """The probability that the battery lasts to the end of each, with all before it."""
        if self.member.battery is None:
            return [1.0] * len(queue)
        if self._waits(queue):
            ends = np.array([runs[-1][1] for runs in laid])
            scales = self.path(queue, laid).largest_scales(ends)
        else:
            scales = self.member.battery.usable_j / np.cumsum(self.energies_j(queue))
        rows = zip(scales / self.middles(queue), self.relative(queue), strict=True)
        return [probability(float(scale), float(relative)) for scale, relative in rows]

    def p_deadline(self, queue: Sequence[Piece], laid: Sequence[Laid]) -> list[float]:
        """The probability that each ends in time, of the queue laid for all `REACHES`."""
        ends = np.array([[runs[-1][1] for runs in each] for each in laid])
        return [_p_in_time(REACHES, ends[:, at], self.due_s(each)) for at, each in enumerate(queue)]


class Laying:
    """The slots of a lane while pieces are laid into them, one after the other."""

    def __init__(self, lane: Lane, reach: float = 0.0) -> None:
        self._lane, self._reach = lane, reach
        self._free = [lane.spans[0].start_s] * lane.member.slots

    def ready_s(self, piece: Piece, after_s: float = 0.0) -> float:
        """When it may begin there, but not before a moment."""
        return max(min(self._free), self._lane.release_s(piece), after_s)

    def runs(self, piece: Piece, after_s: float = 0.0) -> list[tuple[float, float]]:
        """When it would run."""
        return self._lane.runs_from(piece, self.ready_s(piece, after_s), self._reach)

    def lay(self, piece: Piece, after_s: float = 0.0) -> list[tuple[float, float]]:
        """Let it run in the slot that is free first."""
        runs = self.runs(piece, after_s)
        self._free[self._free.index(min(self._free))] = runs[-1][1]
        return runs


def _p_in_time(reaches: Array, ends: Array, due_s: float) -> float:
    """The probability that an end is in time, of ends at so many standard deviations."""
    good = ends <= due_s * (1 + LATE)
    if good.all() or not good.any():
        return float(good.all())
    last = int(np.flatnonzero(good)[-1])
    before, after = ends[last], ends[last + 1]
    part = 0.0
    if math.isfinite(after) and after > before > 0:  # logarithms of ends are nearly straight
        part = math.log(due_s / before) / math.log(after / before)
    z = reaches[last] + max(0.0, part) * (reaches[last + 1] - reaches[last])
    return NormalDist().cdf(float(z))
