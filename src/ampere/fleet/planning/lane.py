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
from typing import NamedTuple

import numpy as np

from ampere.core.arrays import Array
from ampere.fleet.costs import Costs
from ampere.fleet.member import Member, Span
from ampere.fleet.planning.assurance import SURE, deviation, middle, probability, upper
from ampere.fleet.planning.battery_path import BatteryPath, Run
from ampere.fleet.task import Task

LATE = 1e-9  # share of a deadline that is rounding
GRID = 65  # numbers of standard deviations for which ends are looked at


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

    def ordered(self, pieces: Sequence[Piece]) -> list[Piece]:
        """As they are taken up: of those that may begin, the one that is due first."""
        waiting = sorted(
            pieces, key=lambda piece: (self.due_s(piece), self.release_s(piece), piece)
        )
        if all(self.release_s(piece) <= self.spans[0].start_s for piece in pieces):
            return waiting
        queue, free = [], [self.spans[0].start_s] * self.member.slots
        while waiting:
            now = max(min(free), min(map(self.release_s, waiting)))
            piece = next(each for each in waiting if self.release_s(each) <= now)
            waiting.remove(piece)
            queue.append(piece)
            free.remove(min(free))
            free.append(self._runs(piece, now, 0.0)[-1][1])
        return queue

    def laid(self, queue: Sequence[Piece], reach: float = 0.0) -> list[list[tuple[float, float]]]:
        """From when to when each runs, in this order; without an end if it never gets there."""
        free, laid = [0.0] * self.member.slots, []
        for piece in queue:
            slot = free.index(min(free))
            runs = self._runs(piece, max(free[slot], self.release_s(piece)), reach)
            free[slot] = runs[-1][1]
            laid.append(runs)
        return laid

    def _runs(self, piece: Piece, start_s: float, reach: float) -> list[tuple[float, float]]:
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
            runs.append((begin, begin + part * length))
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
        if self._waits(pieces):
            queue = self.ordered(pieces)
            laid = self.laid(queue)
            if any(math.isinf(runs[-1][1]) for runs in laid):
                return False
            return self._in_time(queue) and self._lasts(queue, laid)
        return self._in_time(pieces) and self._suffices(pieces)

    def _waits(self, pieces: Sequence[Piece]) -> bool:
        """Whether when jobs run matters to whether they can."""
        if not self.always_there:
            return True
        if self.member.battery is None or not (self.member.charging or self.member.idle_w):
            return False
        return bool(self.member.charging) or any(self.release_s(piece) > 0 for piece in pieces)

    def _in_time(self, pieces: Sequence[Piece]) -> bool:
        if all(math.isinf(self.due_s(piece)) for piece in pieces):
            return True
        queue = self.ordered(pieces)
        laid = self.laid(queue, self.reach)
        return all(
            runs[-1][1] <= self.due_s(piece) * (1 + LATE)
            for piece, runs in zip(queue, laid, strict=True)
        )

    def _suffices(self, pieces: Sequence[Piece]) -> bool:
        """Of a battery that nobody charges, and that nothing but jobs empties."""
        battery = self.member.battery
        if battery is None:
            return True
        total, std = float(self.energies_j(pieces).sum()), self.deviation_j(pieces)
        most = self.middles(pieces)[-1] * upper(total, std, self.reach)
        return bool(most <= battery.usable_j * (1 + LATE))

    def _lasts(self, queue: Sequence[Piece], laid: Sequence[Sequence[tuple[float, float]]]) -> bool:
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
        laid: Sequence[Sequence[tuple[float, float]]],
        until_s: float = 0.0,
    ) -> BatteryPath:
        """What the queue does to the battery, told to this moment at least."""
        battery = self.member.battery
        assert battery is not None
        runs = self.runs(queue, laid)
        return BatteryPath(battery, self.member.charging, self.member.idle_w, runs, until_s)

    def runs(
        self, queue: Sequence[Piece], laid: Sequence[Sequence[tuple[float, float]]]
    ) -> list[Run]:
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

    def p_battery(
        self, queue: Sequence[Piece], laid: Sequence[Sequence[tuple[float, float]]]
    ) -> list[float]:
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

    def p_deadline(self, queue: Sequence[Piece]) -> list[float]:
        """The probability that each ends in time."""
        due = [self.due_s(piece) for piece in queue]
        if all(map(math.isinf, due)):
            return [1.0] * len(queue)
        reaches = np.linspace(-SURE, SURE, GRID)
        ends = np.array([self._ends(queue, float(reach)) for reach in reaches])
        return [_p_in_time(reaches, ends[:, at], each) for at, each in enumerate(due)]

    def _ends(self, queue: Sequence[Piece], reach: float) -> list[float]:
        return [runs[-1][1] for runs in self.laid(queue, reach)]


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
