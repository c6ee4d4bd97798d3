"""From a model to its layers: cut the trace where one tensor is live, then group the pieces.

1. A cut is where exactly one value is still needed: what branches inside (a residual block, an
   encoder layer) stays whole. Values that do not depend on the input (a position table) belong to
   the first call that needs them.
2. Pieces without parametric modules, and normalisation, join the layer before them (paper, section
   3.2); what stands before the first layer joins it.
3. Except what leads into the next layer: from the first operation that gives up the map on
   (flatten, global pooling, mean over positions, the last time step) pieces belong to the layer
   behind them, and before the last layer so does a normalisation that follows a block. As "what
   follows" they would make the last of several equal blocks a kind of its own, another one for
   each depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import nn

from ampere.errors import ModelError
from ampere.frameworks.torch.counting import with_features
from ampere.frameworks.torch.sizing import follow
from ampere.frameworks.torch.tracing import Trace, TracedCall, Value, trace
from ampere.frameworks.torch.writing import Segment, Writer
from ampere.inputs import InputSpec
from ampere.layers import Layer, Role

NORMALISATION = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)


def read_layers(
    model: nn.Module, input: InputSpec, *, batch_size: int = 10, optimizer: str = "sgd"
) -> tuple[Layer, ...]:
    """The layers of a model: FIRST, HIDDEN..., LAST, with kinds, widths and features."""
    traced = trace(model, input, batch_size)
    calls = _in_order(traced)
    groups = _group(_cut(calls, traced))
    if not groups:
        raise ModelError(f"{type(model).__name__} has no layer with parameters to estimate")
    needed = replace(traced, calls=tuple(calls))  # what nobody uses decides nothing
    writer = Writer(needed, follow(needed), input, batch_size, optimizer)
    names = _distinct([_name_of(group) for group in groups])
    tensors = {n: id(p) for n, p in model.named_parameters(remove_duplicate=False)}
    seen: set[int] = set()
    layers = []
    for i, (name, group) in enumerate(zip(names, groups, strict=True)):
        last = i == len(groups) - 1
        role = Role.LAST if last else Role.FIRST if i == 0 else Role.HIDDEN
        layer = with_features(writer.layer(name, group, role))
        held = _parameters(group, tensors)
        fresh = sum(size for key, size in held.items() if key not in seen)
        seen.update(held)
        layers.append(replace(layer, params=fresh))
    return tuple(layers)


def _parameters(group: Segment, ids: Mapping[str, int]) -> dict[int, int]:
    """The parameters of a group with their sizes; one that is used twice is there once."""
    found: dict[int, int] = {}
    for call in group:
        if call.module is not None:
            found.update((id(p), p.numel()) for p in call.module.parameters())
        elif call.op == "parameter" and call.parameter is not None:
            found[ids.get(call.where, id(call.parameter))] = call.parameter.numel()
    return found


def _in_order(traced: Trace) -> list[TracedCall]:
    """The calls that the output needs; those without the input right before their first user."""
    by_index = {call.index: call for call in traced.calls}
    needed: set[int] = set()
    stack = [value.call for value in traced.outputs]
    while stack:
        index = stack.pop()
        if index and index not in needed:
            needed.add(index)
            stack.extend(value.call for value in by_index[index].inputs)
    tainted = {0}
    for call in traced.calls:
        if any(value.call in tainted for value in call.inputs):
            tainted.add(call.index)
    order: list[TracedCall] = []
    placed: set[int] = set()

    def place(index: int) -> None:
        if index == 0 or index in placed:
            return
        call = by_index[index]
        for value in call.inputs:
            if value.call not in tainted:
                place(value.call)
        placed.add(index)
        order.append(call)

    for call in traced.calls:
        if call.index in needed and call.index in tainted:
            place(call.index)
    return order


def _cut(calls: Sequence[TracedCall], traced: Trace) -> list[Segment]:
    """Segments between the places where one value is live, and its samples lie side by side."""
    batch, outputs = traced.input_shape[0], traced.outputs
    shapes = {Value(c.index, path): t.shape for c in calls for path, t in c.outputs.items()}
    last_use: dict[Value, int] = {value: len(calls) for value in outputs}
    for position, call in enumerate(calls):
        for value in call.inputs:
            last_use[value] = max(last_use.get(value, 0), position)
    segments: list[Segment] = [[]]
    made: list[Value] = [Value(0)]
    for position, call in enumerate(calls):
        segments[-1].append(call)
        made.extend(Value(call.index, path) for path in call.outputs)
        made = [value for value in made if last_use.get(value, -1) > position]
        if len(made) == 1 and tuple(shapes.get(made[0], (batch,)))[:1] == (batch,):
            segments.append([])
    return [segment for segment in segments if segment]


def _is_parametric(segment: Segment) -> bool:
    return any(
        call.module is not None
        and not isinstance(call.module, NORMALISATION)
        and any(True for _ in call.module.parameters())
        for call in segment
    )


def _is_normalisation(segment: Segment) -> bool:
    return any(isinstance(call.module, NORMALISATION) for call in segment)


def _gives_up_map(segment: Segment) -> bool:
    """Fewer dimensions come out than went in, or all positions but one are gone."""
    before, after = _shape_before(segment), _shape_after(segment)
    collapsed = len(before) > 2 and all(size == 1 for size in after[2:]) and before[2:] != after[2:]
    pooled = any("adaptive" in call.op.lower() for call in segment)
    return len(after) < len(before) or (collapsed and pooled)


def _shape_before(segment: Segment) -> tuple[int, ...]:
    return next(call.before for call in segment if call.before)


def _shape_after(segment: Segment) -> tuple[int, ...]:
    return tuple(next(iter(segment[-1].outputs.values())).shape)


def _group(segments: list[Segment]) -> list[Segment]:
    """Join segments without parametric modules to the layer before or behind them."""
    cores = [i for i, segment in enumerate(segments) if _is_parametric(segment)]
    groups: list[Segment] = []
    if not cores:
        return groups
    start = 0
    for core, following in zip(cores, [*cores[1:], None], strict=True):
        if following is None:
            end = len(segments)
        else:
            end = core + 1
            block = len(segments[core]) > 1
            before_last = following == cores[-1]
            while end < following and not _gives_up_map(segments[end]):
                if block and before_last and _is_normalisation(segments[end]):
                    break
                end += 1
        groups.append([call for segment in segments[start:end] for call in segment])
        start = end
    return groups


def _name_of(group: Segment) -> str:
    """The module that the layer's parametric calls have in common."""
    paths = [call.where.split(".") for call in group if _is_parametric([call])]
    common = paths[0]
    for path in paths[1:]:
        shared = next(
            (i for i, (a, b) in enumerate(zip(common, path, strict=False)) if a != b),
            min(len(common), len(path)),
        )
        common = common[:shared]
    return ".".join(common) or ".".join(paths[0])


def _distinct(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out
