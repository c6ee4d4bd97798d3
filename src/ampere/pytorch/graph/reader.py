"""From a model to its layers: group the segments of its trace around what has weights.

1. Segments without weights, and normalisation, join the layer before them (paper, section 3.2);
   what stands before the first layer joins it.
2. Except what leads into the next layer: from the first operation that gives up the map on
   (flatten, global pooling, mean over positions, the last time step) segments belong to the layer
   behind them, and before the last layer so does a normalisation that follows a block. As "what
   follows" they would make the last of several equal blocks a kind of its own, another one for
   each depth.
3. A layer that cannot be rebuilt at other widths is a kind without widths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, Role
from ampere.core.sizes import Size
from ampere.core.training import PLAIN, Training
from ampere.errors import ModelError
from ampere.pytorch.graph.channels import Channels
from ampere.pytorch.graph.counter import runs_resized, with_features
from ampere.pytorch.graph.recorder import TracedCall, Value
from ampere.pytorch.graph.segments import (
    NORMALISATION,
    Segment,
    common_depth,
    constants,
    cut,
    multiplies,
    tainted_calls,
)
from ampere.pytorch.graph.sizes import Sizes, follow
from ampere.pytorch.graph.trace import Trace, trace
from ampere.pytorch.graph.writer import Borders, Writer
from ampere.pytorch.runtime.trainer import dtype_of


@dataclass(frozen=True)
class Part:
    """What a layer was read from: its calls, and how it names the channels that vary in it."""

    calls: tuple[TracedCall, ...]
    names: Mapping[Channels, Size]


@dataclass(frozen=True)
class Reading:
    """The layers of a model, its parameters that belong to none, and what it was read from."""

    layers: tuple[Layer, ...]
    unused: Mapping[str, int]  # by name and size
    parts: tuple[Part, ...]  # one a layer
    trace: Trace
    sizes: Sizes


def read_layers(
    model: nn.Module, inputs: Inputs, training: Training = Training()
) -> tuple[Layer, ...]:
    """The layers of a model: FIRST, HIDDEN..., LAST, with kinds, widths and features."""
    return read_model(model, inputs, training).layers


def read_model(model: nn.Module, inputs: Inputs, training: Training) -> Reading:
    """The layers of a model, and what belongs to none of them."""
    training = replace(training, dtype=training.dtype or dtype_of(model))
    traced = trace(model, inputs, training.batch_size, getattr(torch, training.dtype or PLAIN))
    tainted = tainted_calls(traced)
    groups = _with_constants(_group(cut(traced), tainted), traced)
    if not groups:
        raise ModelError(f"{type(model).__name__} has no layer with parameters to estimate")
    calls = sorted((call for group in groups for call in group), key=lambda call: call.index)
    needed = replace(traced, calls=tuple({call.index: call for call in calls}.values()))
    sizes = follow(needed)
    writer = Writer(needed, sizes, inputs, training)
    borders = _borders(groups, traced)
    writer.settle(groups, borders)
    names = _distinct([_name_of(group, tainted) for group in groups])
    layers = []
    for i, (name, group) in enumerate(zip(names, groups, strict=True)):
        layer = _layer(writer, name, group, borders[i], _role(i, borders, tainted))
        reads = _reads(borders[i], borders[:i])
        layers.append(replace(layer, params=writer.hold(group), reads=reads))
    named = {traced.parameter(name): p for name, p in model.named_parameters()}
    unused = {name: p.numel() for name, p in named.items() if name not in writer.held}
    parts = tuple(
        Part(tuple(group), writer.names(group, border) if layer.widths else {})
        for layer, group, border in zip(layers, groups, borders, strict=True)
    )
    return Reading(_without_plain_reads(layers), unused, parts, needed, sizes)


def _layer(writer: Writer, name: str, group: Segment, borders: Borders, role: Role) -> Layer:
    try:
        layer = writer.layer(name, group, borders, role)
        if layer.widths and not runs_resized(layer):
            layer = writer.layer(name, group, borders, role, resizable=False)
        return with_features(layer)
    except ModelError:
        raise
    except Exception as error:  # torch raises what it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{name} cannot be rebuilt as it stands: {reason}") from error


def _role(i: int, borders: Sequence[Borders], tainted: Set[int]) -> Role:
    if i == len(borders) - 1:
        return Role.LAST
    reads = [value for value in borders[i].entering if value.call in tainted]
    return Role.FIRST if all(value.call == 0 for value in reads) else Role.HIDDEN


def _borders(groups: Sequence[Segment], traced: Trace) -> list[Borders]:
    """What enters and leaves each group; the last one hands out what the model returns."""
    home = {call.index: i for i, group in enumerate(groups) for call in group
            if call.parameter is None}  # fmt: skip
    entering: list[dict[Value, None]] = [{} for _ in groups]
    leaving: list[dict[Value, None]] = [{} for _ in groups]
    constant = constants(traced)
    reads = [(i, value) for i, group in enumerate(groups) for c in group for value in c.inputs]
    reads += [(len(groups) - 1, value) for value in traced.outputs]
    for i, value in reads:
        if value.call in constant or home.get(value.call) == i:
            continue
        entering[i].setdefault(value)
        if value.call:
            leaving[home[value.call]].setdefault(value)
    found = []
    for i, (enter, leave) in enumerate(zip(entering, leaving, strict=True)):
        out: Any = tuple(leave)
        result = out[0] if len(out) == 1 else out
        if i == len(groups) - 1:
            out, result = traced.outputs, traced.result
        found.append(Borders(tuple(enter), out, result))
    return found


def _reads(borders: Borders, before: Sequence[Borders]) -> tuple[tuple[int, int], ...]:
    """Where each input of a layer comes from: the layer and the number of its output."""
    where = {value: (k, n) for k, b in enumerate(before) for n, value in enumerate(b.leaving)}
    return tuple(
        (-1, value.path[0]) if value.call == 0 else where[value] for value in borders.entering
    )


def _without_plain_reads(layers: list[Layer]) -> tuple[Layer, ...]:
    """In a chain every layer reads the one before: nothing needs to be said."""
    chain = all(layer.reads == ((i - 1, 0),) for i, layer in enumerate(layers))
    return tuple(replace(layer, reads=()) if chain else layer for layer in layers)


def _with_constants(groups: list[Segment], traced: Trace) -> list[Segment]:
    """Each group with the parameters and buffers that its calls read, before their first reader."""
    constant = constants(traced)
    found = []
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
        found.append(calls)
    return found


def _is_normalisation(segment: Segment) -> bool:
    return any(isinstance(call.module, NORMALISATION) for call in segment)


def _gives_up_map(segment: Segment) -> bool:
    """No positions come out where there were some, or all but one are gone."""
    before = next((call.before for call in segment if call.before), ())
    after = tuple(next(iter(segment[-1].outputs.values())).shape)
    collapsed = len(before) > 2 and all(size == 1 for size in after[2:]) and before[2:] != after[2:]
    pooled = any("adaptive" in call.op.lower() for call in segment)
    return len(after) <= 2 < len(before) or (collapsed and pooled)


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


def _has_parameters(segment: Segment, tainted: Set[int]) -> bool:
    return any(
        any(value.call not in tainted for value in call.inputs)
        or (call.module is not None and any(True for _ in call.module.parameters()))
        for call in segment
    )


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
