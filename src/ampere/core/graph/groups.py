"""The segments of a trace in groups, one a layer, around what has weights.

1. Segments without weights, and normalisation, join the layer before them (paper, section 3.2);
   what stands before the first layer joins it.
2. Except what leads into the next layer: from the first operation that gives up the map on
   (flatten, global pooling, mean over positions, the last time step) segments belong to the layer
   behind them, and before the last layer so does a normalisation that follows a block. As "what
   follows" they would make the last of several equal blocks a kind of its own, another one for
   each depth.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Generic

from ampere.core.graph.calls import C, Graph, Knowledge, common_depth, constants
from ampere.core.graph.segments import cut


def group_calls(graph: Graph[C], tainted: Set[int], knowledge: Knowledge[C]) -> list[list[C]]:
    """The calls of each layer, in order, with the parameters and buffers that they read."""
    grouper = _Grouper(cut(graph, knowledge), tainted, knowledge)
    return _with_constants(grouper.groups(), graph)


def layer_names(
    groups: Sequence[Sequence[C]], tainted: Set[int], knowledge: Knowledge[C]
) -> list[str]:
    """What each group is called: the module that its weights have in common, numbered if twice."""
    return _distinct([_name_of(group, tainted, knowledge) for group in groups])


class _Grouper(Generic[C]):
    """Joins segments without weights to the layer before or behind them."""

    def __init__(self, segments: list[list[C]], tainted: Set[int], knowledge: Knowledge[C]) -> None:
        self.segments, self.tainted, self.knowledge = segments, tainted, knowledge

    def groups(self) -> list[list[C]]:
        """A group around each segment that has weights."""
        cores = self._cores()
        groups: list[list[C]] = []
        start = 0
        for core, following in zip(cores, [*cores[1:], None], strict=False):
            end = len(self.segments)
            if following is not None:
                end = self._end_of(core, following, before_last=following == cores[-1])
            groups.append([call for segment in self.segments[start:end] for call in segment])
            start = end
        return groups

    def _cores(self) -> list[int]:
        multiplies, tainted = self.knowledge.multiplies, self.tainted
        numbered = list(enumerate(self.segments))
        cores = [i for i, segment in numbered if any(multiplies(c, tainted) for c in segment)]
        # Only normalisation, or parameters that are added: take what has any.
        return cores or [i for i, segment in numbered if self._has_parameters(segment)]

    def _end_of(self, core: int, following: int, before_last: bool) -> int:
        """Where the layer around one core ends, and what leads into the following one begins."""
        segments = self.segments
        block = len(segments[core]) > 1
        end = core + 1
        fed = {value.call for call in segments[following] for value in call.inputs}
        if not any(call.index in fed for call in segments[following - 1]):  # another branch begins
            return following
        while end < following:
            segment = segments[end]
            normalises = block and before_last and any(map(self.knowledge.normalises, segment))
            if self._gives_up_map(segment) or normalises or self._leads(core, end, following):
                break
            end += 1
        return end

    def _leads(self, core: int, at: int, following: int) -> bool:
        """Whether a segment stands in the module of the following layer, as a norm before it."""
        here = self.segments[at][0].stack
        to_next = common_depth(here, self.segments[following][0].stack)
        return to_next > common_depth(here, self.segments[core][-1].stack)

    def _gives_up_map(self, segment: Sequence[C]) -> bool:
        """No positions come out where there were some, or all but one are gone."""
        places = self.knowledge.POSITIONS
        before = next((call.before for call in segment if call.before), ())
        after = tuple(next(iter(segment[-1].outputs.values())).shape)
        all_gone = all(size == 1 for size in after[places]) and before[places] != after[places]
        pooled = any(map(self.knowledge.pools_all, segment))
        return len(after) <= 2 < len(before) or (len(before) > 2 and all_gone and pooled)

    def _has_parameters(self, segment: Sequence[C]) -> bool:
        return any(
            any(value.call not in self.tainted for value in call.inputs)
            or self.knowledge.holds_parameters(call)
            for call in segment
        )


def _with_constants(groups: list[list[C]], graph: Graph[C]) -> list[list[C]]:
    """Each group with the parameters and buffers that its calls read, before their first reader."""
    constant = constants(graph)
    with_constants = []
    for group in groups:
        calls: list[C] = []
        seen: set[int] = set()
        for call in group:
            for value in call.inputs:
                if value.call in constant and value.call not in seen:
                    seen.add(value.call)
                    calls.append(constant[value.call])
            calls.append(call)
        if group is groups[-1]:  # a parameter may be returned as it is
            returned = {value.call for value in graph.outputs} & constant.keys() - seen
            calls.extend(constant[index] for index in sorted(returned))
        with_constants.append(calls)
    return with_constants


def _name_of(group: Sequence[C], tainted: Set[int], knowledge: Knowledge[C]) -> str:
    """The module that the layer's calls with weights have in common."""
    weighted = [call for call in group if knowledge.multiplies(call, tainted)] or group
    paths = [call.where.split(".") for call in weighted]
    common = paths[0]
    for path in paths[1:]:
        shared = next(
            (i for i, (a, b) in enumerate(zip(common, path, strict=False)) if a != b),
            min(len(common), len(path)),
        )
        common = common[:shared]
    return ".".join(common) or ".".join(paths[0]) or "model"


def _distinct(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out
