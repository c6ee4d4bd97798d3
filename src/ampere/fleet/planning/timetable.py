"""Timetable: when everything runs, of all members at once.

    board   ▇▇▇▇ signs ▇▇▇▇                   parts of one job run one after the other: the next
    phone   ▇ letters ▇ ▇ digits ▇ ▇ signs ▇   one needs the weights of the one before

Members without such parts have their own order (`Lane.ordered`); the others are laid out together.
Where several members could begin with parts, some orders are tried until batteries and deadlines
hold. Whatever is late, each member keeps its order and each job that of its parts. What is asked of
many standard deviations is asked of all members at once, as if they were late together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ampere.fleet.planning.lane import REACHES, Laid, Lane, Laying, Piece

Turn = tuple[int, Piece]  # of which member


@dataclass(frozen=True)
class Timetable:
    """The pieces of each member, and when they run.

    Of members that could begin at the same moment, with `quick` 1 the one with the shortest piece
    begins, with -1 the one with the longest, with 0 the one that comes first.
    """

    lanes: Sequence[Lane]
    sheet: Sequence[Sequence[Piece]]
    quick: int = 0

    @classmethod
    def of(cls, lanes: Sequence[Lane], sheet: Sequence[Sequence[Piece]]) -> Timetable:
        """The first that holds: by where members stand, the shortest or the longest first."""
        tables = [cls(lanes, sheet, quick) for quick in (0, 1, -1)]
        if not any(tables[0].tied):
            return tables[0]
        return next((each for each in tables if not each.broken()), tables[0])

    @cached_property
    def tied(self) -> list[bool]:
        """Which members have a part of a job that others have parts of, too."""
        return [any(piece.part < 1 for piece in pieces) for pieces in self.sheet]

    @cached_property
    def turns(self) -> list[Turn]:
        """All pieces, in an order in which they can be laid one after the other."""
        alone = [
            (lane.index, piece)
            for lane, pieces, tied in zip(self.lanes, self.sheet, self.tied, strict=True)
            if not tied
            for piece in lane.ordered(pieces)
        ]
        return [*alone, *self._together()]

    def _together(self) -> list[Turn]:
        """Whoever can begin first takes its most urgent piece that may begin then."""
        tied = [index for index, each in enumerate(self.tied) if each]
        layings = {index: Laying(self.lanes[index]) for index in tied}
        waiting = {index: self.lanes[index].by_urgency(self.sheet[index]) for index in tied}
        ended: dict[int, float] = defaultdict(float)
        turns: list[Turn] = []
        upcoming, stale = dict[int, tuple[float, Piece]](), set(tied)
        while True:
            for index in stale:
                upcoming.pop(index, None)
                if waiting[index]:
                    upcoming[index] = _upcoming(layings[index], waiting[index], ended)
            if not upcoming:
                return turns
            index = min(upcoming, key=lambda each: self._place(each, *upcoming[each]))
            piece = upcoming[index][1]
            waiting[index].remove(piece)
            ended[piece.task] = layings[index].lay(piece, ended[piece.task])[-1][1]
            turns.append((index, piece))
            stale = {index}
            if piece.part < 1:  # the other parts wait for this one
                stale |= {each for each in tied if any(p.task == piece.task for p in waiting[each])}

    def _place(self, index: int, begin_s: float, piece: Piece) -> tuple[float, float, int]:
        return begin_s, self.quick * self.lanes[index].duration_s(piece), index

    @cached_property
    def queues(self) -> list[list[Piece]]:
        """The pieces of each member in their order."""
        queues: list[list[Piece]] = [[] for _ in self.lanes]
        for index, piece in self.turns:
            queues[index].append(piece)
        return queues

    @cached_property
    def expected(self) -> list[Laid]:
        """When the pieces of each queue run, as expected."""
        return self.laid(0.0)

    def laid(self, reach: float) -> list[Laid]:
        """The same if everything takes so many standard deviations more."""
        layings = [Laying(lane, reach) for lane in self.lanes]
        laid: list[list[Sequence[tuple[float, float]]]] = [[] for _ in self.lanes]
        ended: dict[int, float] = defaultdict(float)
        for index, piece in self.turns:
            runs = layings[index].lay(piece, ended[piece.task])
            ended[piece.task] = runs[-1][1]
            laid[index].append(runs)
        return [*laid]

    @property
    def end_s(self) -> float:
        """When the last job of all ends, as expected."""
        ends = [
            max(runs[-1][1] for runs in self.expected[lane.index]) if tied else lane.end_s(pieces)
            for lane, pieces, tied in zip(self.lanes, self.sheet, self.tied, strict=True)
        ]
        return max(ends, default=0.0)

    def broken(self) -> list[int]:
        """Members whose battery or deadlines do not hold as surely as was asked."""
        if not any(self.tied):
            return [lane.index for lane in self.lanes if not lane.fits(self.sheet[lane.index])]
        sure = self.laid(self.lanes[0].reach)
        return [
            lane.index
            for lane, queue in zip(self.lanes, self.queues, strict=True)
            if queue and not lane.holds(queue, self.expected[lane.index], sure[lane.index])
        ]

    def p_deadline(self) -> list[list[float]]:
        """The probability that each piece of each queue ends in time."""
        if all(task.deadline_s is None for task in self.lanes[0].tasks):
            return [[1.0] * len(queue) for queue in self.queues]
        laid = [self.laid(float(reach)) for reach in REACHES]
        return [
            lane.p_deadline(queue, [each[lane.index] for each in laid]) if queue else []
            for lane, queue in zip(self.lanes, self.queues, strict=True)
        ]


def _upcoming(
    laying: Laying, waiting: Sequence[Piece], ended: dict[int, float]
) -> tuple[float, Piece]:
    """What a member takes up next, and when it begins."""
    ready = [laying.ready_s(piece, ended[piece.task]) for piece in waiting]
    piece = waiting[ready.index(min(ready))]
    return laying.runs(piece, ended[piece.task])[0][0], piece
