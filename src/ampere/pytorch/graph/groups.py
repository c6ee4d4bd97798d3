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

from ampere.pytorch.graph.segments import Segment, common_depth, constants, cut, multiplies
from ampere.pytorch.graph.trace import Trace
from ampere.pytorch.modules.base import Place
from ampere.pytorch.modules.registry import record_of


def group_calls(traced: Trace, tainted: Set[int]) -> list[Segment]:
    """The calls of each layer, in order, with the parameters and buffers that they read."""
    return _with_constants(_group(cut(traced), tainted), traced)


def layer_names(groups: Sequence[Segment], tainted: Set[int]) -> list[str]:
    """What each group is called: the module that its weights have in common, numbered if twice."""
    return _distinct([_name_of(group, tainted) for group in groups])


def _group(segments: list[Segment], tainted: Set[int]) -> list[Segment]:
    """Join segments without weights to the layer before or behind them."""
    cores = [i for i, seg in enumerate(segments) if any(multiplies(c, tainted) for c in seg)]
    if not cores:  # only normalisation, or parameters that are added: take what has any
        cores = [i for i, segment in enumerate(segments) if _has_parameters(segment, tainted)]
    groups: list[Segment] = []
    start = 0
    for core, following in zip(cores, [*cores[1:], None], strict=False):
        end = len(segments)
        if following is not None:
            before_last = following == cores[-1]
            end = _end_of(segments, core, following, before_last)
        groups.append([call for segment in segments[start:end] for call in segment])
        start = end
    return groups


def _end_of(segments: list[Segment], core: int, following: int, before_last: bool) -> int:
    """Where the layer around one core ends, and what leads into the following one begins."""
    block = len(segments[core]) > 1
    end = core + 1
    fed = {value.call for call in segments[following] for value in call.inputs}
    if not any(call.index in fed for call in segments[following - 1]):  # another branch begins
        return following
    while end < following:
        segment = segments[end]
        normalises = block and before_last and _is_normalisation(segment)
        if _gives_up_map(segment) or normalises or _leads(segments, core, end, following):
            break
        end += 1
    return end


def _leads(segments: list[Segment], core: int, at: int, following: int) -> bool:
    """Whether a segment stands in the module of the following layer, as a norm before it does."""
    here = segments[at][0].stack
    to_next = common_depth(here, segments[following][0].stack)
    return to_next > common_depth(here, segments[core][-1].stack)


def _is_normalisation(segment: Segment) -> bool:
    records = [record_of(call.module) for call in segment if call.module is not None]
    return any(record and record.place is Place.NORMALISATION for record in records)


def _gives_up_map(segment: Segment) -> bool:
    """No positions come out where there were some, or all but one are gone."""
    before = next((call.before for call in segment if call.before), ())
    after = tuple(next(iter(segment[-1].outputs.values())).shape)
    collapsed = len(before) > 2 and all(size == 1 for size in after[2:]) and before[2:] != after[2:]
    pooled = any("adaptive" in call.op.lower() for call in segment)
    return len(after) <= 2 < len(before) or (collapsed and pooled)


def _has_parameters(segment: Segment, tainted: Set[int]) -> bool:
    return any(
        any(value.call not in tainted for value in call.inputs)
        or (call.module is not None and any(True for _ in call.module.parameters()))
        for call in segment
    )


def _with_constants(groups: list[Segment], traced: Trace) -> list[Segment]:
    """Each group with the parameters and buffers that its calls read, before their first reader."""
    constant = constants(traced)
    with_constants = []
    for group in groups:
        calls: Segment = []
        seen: set[int] = set()
        for call in group:
            for value in call.inputs:
                if value.call in constant and value.call not in seen:
                    seen.add(value.call)
                    calls.append(constant[value.call])
            calls.append(call)
        if group is groups[-1]:  # a parameter may be returned as it is
            returned = {value.call for value in traced.outputs} & constant.keys() - seen
            calls.extend(constant[index] for index in sorted(returned))
        with_constants.append(calls)
    return with_constants


def _name_of(group: Segment, tainted: Set[int]) -> str:
    """The module that the layer's calls with weights have in common."""
    weighted = [call for call in group if multiplies(call, tainted)] or group
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
