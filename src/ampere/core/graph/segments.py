"""Where a trace is cut into segments: between calls, where one value is live.

A value is live from the call that makes it to the last that needs it. Where exactly one is, what
came before and what follows have nothing else in common: what branches inside (a residual block, an
encoder layer) stays whole. Two kinds of values are carried past a cut instead of preventing it, and
the layer that reads them has several inputs:

A. Long skips: values that the model itself, not one of its blocks, hands on over several of its
   parts (the skips of a U-Net, the memory of an encoder-decoder) or past a part that does not need
   them (the other branch of a siamese network), or that a part hands on over three or more blocks
   inside it (the memory of a decoder). A block that uses such a value twice is not cut between.
B. If a segment of many layers still holds more than half of the model's work, all that live between
   the parts of the module that it lies in (the branches of HRNet, the cells of NASNet).

What does not depend on the model's input (a mask, a position table) never prevents a cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic

from ampere.core.graph.calls import (
    C,
    Graph,
    Knowledge,
    Value,
    common_depth,
    constants,
    tainted_calls,
)

MANY = 8  # weights in a row; the blocks that people write have fewer


def cut(graph: Graph[C], knowledge: Knowledge[C]) -> list[list[C]]:
    """The calls that the output needs, in segments; constants are left to those who use them."""
    return _Cutter(graph, knowledge).segments()


@dataclass(frozen=True)
class _Range:
    """How long a value lives, in positions of the ordered calls, and who uses it."""

    first: int
    last: int
    uses: tuple[int, ...]

    @property
    def whole(self) -> list[tuple[int, int]]:
        """All of it."""
        return [(self.first, self.last)]


class _Cutter(Generic[C]):
    def __init__(self, graph: Graph[C], knowledge: Knowledge[C]) -> None:
        self.graph = graph
        self.constants = constants(graph)
        self.tainted = tainted_calls(graph)
        self.calls = self._ordered()
        self.depths = [common_depth(a.stack, b.stack) for a, b in pairwise(self.calls)]
        self.work = [knowledge.work(call) for call in self.calls]
        self.ranges = self._ranges()
        self.glued = self._glued()

    def segments(self) -> list[list[C]]:
        """Cut, then cut again what is still more than half of the model."""
        blocking = {v: self._blocking(v, span) for v, span in self.ranges.items()}
        half = sum(self.work) / 2
        start = 0
        segments: list[list[C]] = []
        for end in self._ends(0, len(self.calls), blocking):
            for a, b in self._halved(start, end, half):
                segments.append(self.calls[a:b])
            start = end
        return [segment for segment in segments if segment]

    def _halved(self, start: int, end: int, half: float) -> Iterator[tuple[int, int]]:
        """A range of calls, cut between the parts of its module while it is over half."""
        inner = self.depths[start : end - 1]
        work = self.work[start:end]
        level = min(inner, default=0)
        parts = [start, *(start + i + 1 for i, d in enumerate(inner) if d == level), end]
        if sum(work) <= half or sum(1 for w in work if w) <= MANY or len(parts) == 2:
            yield start, end
            return
        for a, b in pairwise(parts):
            inside = {v: r.whole for v, r in self.ranges.items() if a <= r.first and r.last < b}
            begin = a
            for stop in self._ends(a, b, inside):
                yield from self._halved(begin, stop, half)
                begin = stop

    def _ordered(self) -> list[C]:
        """Calls without the input stand right before their first user."""
        by_index = {call.index: call for call in self.graph.calls}
        needed: set[int] = set()
        stack = [value.call for value in self.graph.outputs]
        stack += [value.call for value in self.graph.written]
        while stack:
            index = stack.pop()
            if index and index not in needed:
                needed.add(index)
                stack.extend(value.call for value in by_index[index].needs)
        order: list[C] = []
        placed: set[int] = set()

        def place(index: int) -> None:
            if index == 0 or index in placed or index in self.constants:
                return
            call = by_index[index]
            for value in call.needs:
                if value.call not in self.tainted:
                    place(value.call)
            placed.add(index)
            order.append(call)

        for call in self.graph.calls:
            if call.index in needed and call.index in self.tainted:
                place(call.index)
        for value in self.graph.outputs:  # what is returned without the input
            place(value.call)
        return order

    def _ranges(self) -> dict[Value, _Range]:
        born = {call.index: position for position, call in enumerate(self.calls)}
        uses: dict[Value, list[int]] = defaultdict(list)
        for position, call in enumerate(self.calls):
            for value in call.needs:
                if value.call in self.tainted:
                    uses[value].append(position)
        ranges = {}
        for value, at in uses.items():
            first = born[value.call] if value.call else at[0]  # an input is fetched when needed
            ranges[value] = _Range(first, at[-1], tuple(at))
        return ranges  # what only the caller reads prevents no cut

    def _glued(self) -> set[int]:
        """Positions between a view and a write through it: elsewhere it would be a copy."""
        born = {call.index: position for position, call in enumerate(self.calls)}
        glued: set[int] = set()
        for position, call in enumerate(self.calls):
            if call.through is not None and call.through.call in born:
                glued.update(range(born[call.through.call], position))
        return glued

    def _blocking(self, value: Value, span: _Range) -> list[tuple[int, int]]:
        """Between which positions a value prevents a cut."""
        if span.first + 1 == span.last and not self._side_by_side(value):
            return span.whole  # no skip: the next call may well put the batch first
        level = self._level(value, span)
        parts: dict[object, int] = defaultdict(int)
        for position in range(span.first + 1, span.last + 1):
            if self.work[position] > 0:
                parts[self._part(position, level)] += 1
        blocks = sum(1 for weights in parts.values() if weights > 1)
        aside = len(parts) >= 2 or len(span.uses) == 1
        if not (level <= 1 and aside) and blocks < 3:
            return span.whole
        used: dict[object, list[int]] = defaultdict(list)
        for position in span.uses:
            used[self._part(position, level)].append(position)
        return [(uses[0], uses[-1]) for uses in used.values() if len(uses) > 1]

    def _part(self, position: int, level: int) -> object:
        """What a call belongs to, among the parts of the module call at a level."""
        stack = self.calls[position].stack
        return stack[level] if len(stack) > level else position

    def _level(self, value: Value, span: _Range) -> int:
        """How deep the innermost module call lies that hands a value to all who use it."""
        stacks = [self.calls[position].stack for position in span.uses]
        if len(stacks) == 1:  # the one in which it is made and used
            made = self.calls[span.first].stack[:1] if value.call == 0 else ()
            return common_depth(made or self.calls[span.first].stack, stacks[0])
        return min(common_depth(stacks[0], stack) for stack in stacks[1:])

    def _ends(
        self, start: int, end: int, blocking: Mapping[Value, list[tuple[int, int]]]
    ) -> list[int]:
        """The ends of the segments between two positions."""
        change: dict[int, int] = defaultdict(int)
        apart = set(self.glued)
        for value, spans in blocking.items():
            for first, last in spans:
                change[max(first, start)] += 1
                change[max(last, start)] -= 1
                if not self._side_by_side(value):
                    apart.update(range(first, last))
        ends, live = [], 0
        for position in range(start, end - 1):
            live += change[position]
            made_from_input = self.calls[position].index in self.tainted
            if live <= 1 and made_from_input and position not in apart:
                ends.append(position + 1)
        return [*ends, end]

    def _side_by_side(self, value: Value) -> bool:
        """Whether the samples of a batch lie one behind the other, as all layers expect them."""
        if value.call == 0:
            return True
        call = self.graph.calls[value.call - 1]
        return tuple(call.outputs[value.path].shape)[:1] == (self.graph.batch,)
