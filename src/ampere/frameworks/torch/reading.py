"""From a model to its layers: cut the trace where one tensor is live, then group the pieces.

1. A cut is where exactly one value is still needed: what branches inside (a residual block, an
   encoder layer) stays whole. Values that do not depend on the input (a position table) belong to
   the first call that needs them.
2. Pieces without parametric modules, and normalisation, join the layer before them (paper, section
   3.2); what stands before the first layer joins it.
3. Except what leads into the next layer: from the first operation that gives up the map on (flatten,
   global pooling, mean over positions, the last time step) pieces belong to the layer behind them,
   and before the last layer so does a normalisation that follows a block. As "what follows" they
   would make the last of several equal blocks a kind of its own, different for each depth.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import torch
from torch import nn

from ampere.errors import ModelError
from ampere.frameworks.torch.counting import with_features
from ampere.frameworks.torch.sizing import Dim, Scaled, Sizes, follow
from ampere.frameworks.torch.tracing import Trace, TracedCall, Value, trace
from ampere.inputs import InputSpec
from ampere.layers import Call, Json, Layer, LayerKind, Role, Size, Structure, Widths

Segment = list[TracedCall]

NORMALISATION = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)


def read_layers(
    model: nn.Module, input: InputSpec, *, batch_size: int = 10, optimizer: str = "sgd"
) -> tuple[Layer, ...]:
    """The layers of a model: FIRST, HIDDEN..., LAST, with kinds, widths and features."""
    traced = trace(model, input, batch_size)
    calls = _in_order(traced)
    groups = _group(_cut(calls, traced.outputs))
    if not groups:
        raise ModelError(f"{type(model).__name__} has no layer with parameters to estimate")
    writer = _Writer(traced, follow(traced), input, batch_size, optimizer)
    names = _distinct([_name_of(group) for group in groups])
    layers = []
    for i, (name, group) in enumerate(zip(names, groups, strict=True)):
        last = i == len(groups) - 1
        role = Role.LAST if last else Role.FIRST if i == 0 else Role.HIDDEN
        layers.append(with_features(writer.layer(name, group, role)))
    return tuple(layers)


# --- cuts -----------------------------------------------------------------------------------------


def _in_order(traced: Trace) -> list[TracedCall]:
    """The calls that matter for the output; those without the input right before their first user."""
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


def _cut(calls: Sequence[TracedCall], outputs: Sequence[Value]) -> list[Segment]:
    """Segments between the places where exactly one value is live."""
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
        if len(made) == 1:
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


# --- kinds ----------------------------------------------------------------------------------------


class _Writer:
    """Writes a group of calls as a layer: structure with symbolic sizes, kind, widths."""

    def __init__(
        self, traced: Trace, sizes: Sizes, input: InputSpec, batch: int, optimizer: str
    ) -> None:
        self.traced, self.sizes, self.input = traced, sizes, input
        self.batch, self.optimizer = batch, optimizer
        self.grads = _needs_grad(traced)

    def layer(self, name: str, group: Segment, role: Role) -> Layer:
        inside = {call.index for call in group}
        entering = {v for call in group for v in call.inputs if v.call not in inside}
        if len(entering) != 1:
            raise ModelError(f"{name} reads {len(entering)} values from outside; one is expected")
        (source,) = entering
        result = self._result(group, inside)
        names, widths, multiples = self._widths(group, source, result)
        scope = _Scope(names, {index: k for k, index in enumerate(sorted_calls(group), start=1)})
        tokens = source.call == 0 and self.input.dtype == "int64"
        structure = Structure(
            input=tuple(scope.size(dim) for dim in self.sizes.of(source)[1:]),
            output=tuple(scope.size(dim) for dim in self.sizes.of(result)[1:]),
            calls=tuple(self._call(call, scope, source) for call in group),
            result=scope.value(result, source),
            input_dtype="int64" if tokens else "float32",
            input_below=self._vocabulary(group, source) if tokens else None,
            input_grad=source in self.grads,
            multiples=multiples,
        )
        kind = describe(structure, role, self.batch, self.optimizer)
        return Layer(name, kind, widths)

    def _result(self, group: Segment, inside: set[int]) -> Value:
        used = {v for call in self.traced.calls if call.index not in inside for v in call.inputs}
        used.update(self.traced.outputs)
        leaving = [Value(c.index, path) for c in group for path in c.outputs]
        leaving = [value for value in leaving if value in used]
        # A call that is dead for the output may still read one of our values.
        return leaving[-1]

    def _widths(
        self, group: Segment, source: Value, result: Value
    ) -> tuple[dict[int, Size], Widths, dict[str, int]]:
        """Names for the channels that this layer can vary, and every other size in terms of them."""
        entering = _channels(self.sizes.of(source))
        leaving = _channels(self.sizes.of(result))
        names: dict[int, Size] = {}
        roots = {}
        if entering is not None:
            tied = leaving is not None and leaving.channels.root is entering.channels.root
            root = entering.channels.root
            label = "width" if tied else "in"
            # The width counts what really enters: twice the hidden size of a bidirectional LSTM.
            times = entering.times if not tied else Fraction(1)
            names[id(root)] = Size(label, times.denominator, times.numerator)
            roots[label] = (root, int(root.size * times), times)
        if leaving is not None and id(leaving.channels.root) not in names:
            root = leaving.channels.root
            names[id(root)] = Size("out")
            roots["out"] = (root, root.size, Fraction(1))
        multiples = {label: 1 for label in roots}
        for label, (root, _, times) in roots.items():
            multiples[label] = int(root.multiple * times)
        base = "out" if "out" in roots else next(iter(roots), None)
        for call in group:
            for dim in _all_dims(self.sizes, call):
                if not isinstance(dim, Scaled) or dim.channels.root.pinned:
                    continue
                root = dim.channels.root
                if id(root) in names:
                    continue
                if base is None:
                    root.pinned = True
                    continue
                ratio = Fraction(root.size, roots[base][1])
                names[id(root)] = Size(base, ratio.numerator, ratio.denominator)
                step = lcm(ratio.denominator, multiples[base])
                while step * ratio % root.multiple:
                    step += multiples[base]
                multiples[base] = step
        widths = Widths({label: value for label, (_, value, _) in roots.items()})
        return names, widths, multiples

    def _vocabulary(self, group: Segment, source: Value) -> int:
        tables = [
            call.module.num_embeddings
            for call in group
            if isinstance(call.module, nn.Embedding) and source in call.inputs
        ]
        return min(tables, default=self.input.below or 2)

    def _call(self, call: TracedCall, scope: _Scope, source: Value) -> Call:
        if call.parameter is not None:
            dims = self.sizes.of(Value(call.index))
            shape = [scope.argument(dim) for dim in dims]
            return Call(call.op, {"shape": shape}, frozen=not call.trains)
        inputs = tuple(scope.tree(part, source, call) for part in call.args)
        options = {key: scope.tree(part, source, call) for key, part in call.kwargs.items()}
        if call.module is None:
            if _is_flatten(call):  # sizes written out, as in x.view(-1, 16 * 5 * 5), would not resize
                return Call("torch.flatten", {}, (inputs[0],), {"start_dim": 1})
            return Call(call.op, {}, inputs, options)
        arguments = _constructor_arguments(call.module)
        for key, dim in self.sizes.arguments[call.index].items():
            many = isinstance(dim, tuple)
            arguments[key] = [scope.argument(d) for d in dim] if many else scope.argument(dim)
        held = any(True for _ in call.module.parameters())
        return Call(call.op, arguments, inputs, options, frozen=held and not call.trains)


class _Scope:
    """How sizes and values are written inside one layer."""

    def __init__(self, names: dict[int, Size], numbers: dict[int, int]) -> None:
        self.names, self.numbers = names, numbers

    def size(self, dim: Dim) -> int | Size:
        if isinstance(dim, int):
            return dim
        root = dim.channels.root
        if root.pinned or id(root) not in self.names:
            return int(root.size * dim.times)
        name = self.names[id(root)]
        ratio = Fraction(name.times, name.over) * dim.times
        return Size(name.width, ratio.numerator, ratio.denominator)

    def argument(self, dim: Dim) -> Json:
        size = self.size(dim)
        return {"size": str(size)} if isinstance(size, Size) else size

    def value(self, value: Value, source: Value) -> Json:
        if value == source:
            return {"value": 0}
        number = self.numbers[value.call]
        return {"value": [number, *value.path] if value.path else number}

    def tree(self, part: Any, source: Value, call: TracedCall) -> Json:
        """An argument as plain data."""
        if isinstance(part, Value):
            return self.value(part, source)
        if isinstance(part, list | tuple):
            return [self.tree(p, source, call) for p in part]
        if isinstance(part, slice):
            return {"slice": [part.start, part.stop, part.step]}
        if part is Ellipsis:
            return {"ellipsis": True}
        if isinstance(part, torch.dtype):
            return {"dtype": str(part).rpartition(".")[2]}
        if part is None or isinstance(part, bool | int | float | str):
            return part
        raise ModelError(f"{call.where or 'the model'}: cannot write down {part!r} in {call.op}")


def sorted_calls(group: Segment) -> list[int]:
    """The indices of a group's calls in the order in which they run."""
    return [call.index for call in group]


def _channels(dims: Sequence[Dim]) -> Scaled | None:
    free = [d for d in dims if isinstance(d, Scaled) and not d.channels.root.pinned]
    return free[0] if free else None


def _all_dims(sizes: Sizes, call: TracedCall) -> list[Dim]:
    dims: list[Dim] = []
    for argument in sizes.arguments.get(call.index, {}).values():
        dims.extend(argument if isinstance(argument, tuple) else (argument,))
    for path in call.outputs:
        dims.extend(sizes.of(Value(call.index, path)))
    return dims


def _needs_grad(traced: Trace) -> set[Value]:
    """Values through which a gradient flows back."""
    found: set[Value] = set()
    for call in traced.calls:
        if call.trains or any(value in found for value in call.inputs):
            found.update(
                Value(call.index, path)
                for path, tensor in call.outputs.items()
                if tensor.is_floating_point()
            )
    return found


def _is_flatten(call: TracedCall) -> bool:
    name = call.op.rpartition(".")[2]
    after = tuple(next(iter(call.outputs.values())).shape)
    return name in ("view", "reshape", "flatten") and len(after) == 2 and after[0] == call.before[0]


_RECURRENT = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout")


def _constructor_arguments(module: nn.Module) -> dict[str, Json]:
    """The arguments that build a standard module again, read back from its attributes."""
    if isinstance(module, nn.RNNBase):
        names = [*_RECURRENT, "bidirectional"]
    else:
        names = [name for name in inspect.signature(type(module)).parameters]
    arguments: dict[str, Json] = {}
    for name in names:
        if name in ("device", "dtype", "inplace") or not hasattr(module, name):
            continue
        value = getattr(module, name)
        if name == "bias" and not isinstance(value, bool):
            value = value is not None
        if isinstance(value, tuple):
            value = list(value)
        if value is None or isinstance(value, bool | int | float | str | list):
            arguments[name] = value
    if isinstance(module, nn.MultiheadAttention):
        arguments["bias"] = module.in_proj_bias is not None
        if module._qkv_same_embed_dim:  # they follow embed_dim
            del arguments["kdim"], arguments["vdim"]
    if getattr(module, "inplace", False):
        arguments["inplace"] = True
    return arguments


def describe(structure: Structure, role: Role, batch: int, optimizer: str) -> LayerKind:
    """The kind of a structure: a name that people can read, and the numbers inside."""
    words, heavy = [], []
    attributes: dict[str, Json] = {"batch": batch, "optimizer": optimizer}
    for call in structure.calls:
        word = _word(call.op)
        if call.op in ("parameter", "buffer"):
            continue
        kernel = call.arguments.get("kernel_size")
        if kernel is not None:
            word += "x".join(map(str, kernel if isinstance(kernel, list) else [kernel]))
        words.append(word)
        if _has_weights(call):
            heavy.append(call)
    if len(heavy) == 1:
        _write_attributes(heavy[0], attributes)
    positions = [size for size in structure.input if isinstance(size, int)]
    if len(structure.input) == 3:
        attributes["height"], attributes["width"] = structure.input[1:]
    elif len(structure.input) == 2:
        attributes["length"] = positions[-1] if len(positions) else 0
    elif structure.input_dtype == "int64":
        attributes["length"] = structure.input[0]
    operation = "+".join(_collapse([_word(call.op) for call in heavy]))
    frozen = " frozen" if heavy and all(call.frozen for call in heavy) else ""
    where = "x".join(map(str, structure.input))
    label = "+".join(_collapse(words))
    name = f"{role.value} {label} @{where} b{batch} float32 {optimizer}{frozen} #{structure.digest}"
    return LayerKind(name, role, operation, attributes, structure)


def _has_weights(call: Call) -> bool:
    cls = getattr(nn, call.op, None)
    weighted = (nn.modules.conv._ConvNd, nn.Linear, nn.Embedding, nn.RNNBase, nn.MultiheadAttention)
    return isinstance(cls, type) and issubclass(cls, weighted)


def _word(op: str) -> str:
    name = op.rpartition(".")[2].strip("_")
    return {"getitem": "select", "iadd": "add"}.get(name.lower(), name.lower())


def _collapse(words: Sequence[str]) -> list[str]:
    """Equal words counted, in order of first appearance."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return [word if n == 1 else f"{n}×{word}" for word, n in counts.items()]


def _write_attributes(call: Call, attributes: dict[str, Json]) -> None:
    short = {"kernel_size": "kernel", "stride": "stride", "padding": "padding", "groups": "groups"}
    for argument, name in short.items():
        value = call.arguments.get(argument)
        if isinstance(value, list):
            value = value[0] if len(set(value)) == 1 else value
        if isinstance(value, int | list):
            attributes[name] = value
    entering = call.arguments.get("in_features")
    if isinstance(entering, dict):
        attributes["flatten"] = Size.parse(entering["size"]).times
