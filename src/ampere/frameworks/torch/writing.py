"""A group of traced calls written down as a layer: a structure with symbolic sizes, and widths."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import torch
from torch import nn

from ampere.errors import ModelError
from ampere.frameworks.torch.kinds import describe
from ampere.frameworks.torch.sizing import Dim, Scaled, Sizes
from ampere.frameworks.torch.tracing import Trace, TracedCall, Value
from ampere.inputs import InputSpec
from ampere.layers import Call, Json, Layer, Role, Size, Structure, Widths

Segment = list[TracedCall]


class Writer:
    """Writes a group of calls as a layer: structure with symbolic sizes, kind, widths."""

    def __init__(
        self, traced: Trace, sizes: Sizes, input: InputSpec, batch: int, optimizer: str
    ) -> None:
        self.traced, self.sizes, self.input = traced, sizes, input
        self.batch, self.optimizer = batch, optimizer
        self.grads = _needs_grad(traced)

    def layer(self, name: str, group: Segment, role: Role) -> Layer:
        """The layer that these calls are; its kind is told from its structure."""
        inside = {call.index for call in group}
        entering = {v for call in group for v in call.inputs if v.call not in inside}
        if len(entering) != 1:
            raise ModelError(f"{name} reads {len(entering)} values from outside; one is expected")
        (source,) = entering
        result = self._result(group, inside)
        names, widths, multiples = self._widths(group, source, result)
        scope = _Scope(names, {call.index: k for k, call in enumerate(group, start=1)})
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
        return next(value for value in leaving if value in used)

    def _widths(
        self, group: Segment, source: Value, result: Value
    ) -> tuple[dict[int, Size], Widths, dict[str, int]]:
        """Names for the channels that this layer can vary; other sizes are multiples of them."""
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
            if _is_flatten(
                call
            ):  # sizes written out, as in x.view(-1, 16 * 5 * 5), would not resize
                return Call("torch.flatten", {}, (inputs[0],), {"start_dim": 1})
            return Call(call.op, {}, inputs, options)
        arguments = _constructor_arguments(call.module)
        for key, dim in self.sizes.arguments[call.index].items():
            if isinstance(dim, tuple):
                arguments[key] = [scope.argument(d) for d in dim]
            else:
                arguments[key] = scope.argument(dim)
        held = dict(call.module.named_parameters())
        frozen = tuple(name for name, p in held.items() if not p.requires_grad)
        if not call.trains:
            return Call(call.op, arguments, inputs, options, frozen=bool(held))
        return Call(call.op, arguments, inputs, options, frozen_parts=frozen)


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
        if isinstance(part, torch.device):
            return {"device": "input"}
        if isinstance(part, torch.dtype):
            return {"dtype": str(part).rpartition(".")[2]}
        if part is None or isinstance(part, bool | int | float | str):
            return part
        raise ModelError(f"{call.where or 'the model'}: cannot write down {part!r} in {call.op}")


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
    """Values through which a gradient flows back; `no_grad` and `detach` stop it."""
    return {
        Value(call.index, path)
        for call in traced.calls
        for path, tensor in call.outputs.items()
        if tensor.requires_grad
    }


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
    if isinstance(module, nn.RNN):
        arguments["nonlinearity"] = module.nonlinearity
    if isinstance(module, nn.LSTM) and module.proj_size:
        arguments["proj_size"] = module.proj_size
    if isinstance(module, nn.MultiheadAttention):
        if module.bias_k is not None:
            arguments["add_bias_kv"] = True
        arguments["bias"] = module.in_proj_bias is not None
        if module._qkv_same_embed_dim:  # they follow embed_dim
            del arguments["kdim"], arguments["vdim"]
    if getattr(module, "inplace", False):
        arguments["inplace"] = True
    return arguments
