"""A group of traced calls written down as a layer: a structure with symbolic sizes, and widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ampere.core.graph.borders import Borders
from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Channels, Power, Scaled, Sizes
from ampere.core.graph.kinds import describe
from ampere.core.graph.naming import Naming, name_channels
from ampere.core.graph.scope import Scope, settle, with_tuples
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, Role
from ampere.core.program.sizes import Size, SizePower
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import DType, InputDevice, MemoryFormat, Term
from ampere.core.program.trees import map_leaves
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.pytorch.graph import cores
from ampere.pytorch.graph.recorder import Segment, TracedCall
from ampere.pytorch.graph.trace import Trace
from ampere.pytorch.modules.base import signature_arguments
from ampere.pytorch.modules.registry import record_of
from ampere.pytorch.runtime.builder import is_shared


class Writer:
    """Writes a group of calls as a layer: structure with symbolic sizes, kind, widths."""

    def __init__(self, traced: Trace, sizes: Sizes, inputs: Inputs, training: Training) -> None:
        self.traced, self.sizes, self.training = traced, sizes, training
        self.fed = dict(zip(traced.inputs, inputs, strict=True))
        self.tensors = dict(traced.inputs) | {
            Value(call.index, path): tensor
            for call in traced.calls
            for path, tensor in call.outputs.items()
        }
        self.held: set[str] = set()  # parameters that layers before hold already

    def layer(
        self, name: str, group: Segment, borders: Borders, role: Role, resizable: bool = True
    ) -> Layer:
        """The layer that these calls are; its kind is told from its structure."""
        numbers = {call.index: k for k, call in enumerate(group, start=1)}
        naming = self._naming(group, borders) if resizable else Naming()
        held = [call.parameter for call in group if call.parameter is not None]
        on_meta = all(tensor.is_meta for tensor in (*self.traced.inputs.values(), *held))
        scope = Scope(naming.names, numbers, borders.entering)
        terms = _Terms(scope, on_meta)
        structure = Structure(
            inputs=tuple(self._port(value, group, scope) for value in borders.entering),
            outputs=tuple(self._port(value, group, scope) for value in borders.leaving),
            calls=self._calls(group, terms),
            result=terms.result(borders.result),
            multiples=naming.multiples,
        )
        kind = describe(structure, role, self.training, cores, _is_checkpointed(group))
        return Layer(name, kind, Widths(naming.widths))

    def settle(self, groups: Sequence[Segment], borders: Sequence[Borders]) -> None:
        """What one layer asks of a width (its heads) holds for all layers that it is tied to."""
        for group, border in zip(groups, borders, strict=True):
            settle(self._naming(group, border))

    def names(self, group: Segment, borders: Borders) -> Mapping[Channels, Size]:
        """The channels that vary in a layer of these calls, as multiples of its widths."""
        return self._naming(group, borders).names

    def _naming(self, group: Segment, borders: Borders) -> Naming:
        return name_channels(self.sizes, group, borders, _ranks(self.sizes, group))

    def hold(self, group: Segment) -> int:
        """Count the parameters of a group, and those of later layers as shared with it."""
        fresh = {}
        for call in group:
            if call.module is not None:
                for part, parameter in call.module.named_parameters():
                    fresh[self.traced.parameter(f"{call.where}.{part}")] = parameter.numel()
            elif call.op == "parameter" and call.parameter is not None:
                fresh[self.traced.parameter(call.name)] = call.parameter.numel()
        params = sum(size for key, size in fresh.items() if key not in self.held)
        self.held.update(fresh)
        return params

    def _port(self, value: Value, group: Segment, scope: Scope) -> Port:
        tensor, dims = self.tensors[value], self.sizes.of(value)
        whole = not dims or dims[0] != self.traced.batch
        shape = tuple(scope.size(dim) for dim in (dims if whole else dims[1:]))
        dtype = str(tensor.dtype).rpartition(".")[2]
        below = None
        if value in self.fed and dtype == "int64":
            below = _vocabulary(group, value, self.fed[value].below)
        grad = tensor.requires_grad and value in self.traced.reached
        return Port(shape, dtype, below, grad, whole)

    def _calls(self, group: Segment, terms: _Terms) -> tuple[Call, ...]:
        modules: dict[int, int] = {}  # a module that runs twice is built once
        return tuple(
            self._call(call, terms, modules, number) for number, call in enumerate(group, start=1)
        )

    def _call(self, call: TracedCall, terms: _Terms, modules: dict[int, int], number: int) -> Call:
        if call.parameter is not None:
            return self._constant(call, terms.scope)
        args, kwargs = self.sizes.templates.get(call.index, (call.args, call.kwargs))
        inputs = tuple(terms.tree(part, call) for part in args)
        options = {key: terms.tree(part, call) for key, part in kwargs.items()}
        if call.module is None:
            if inputs and _is_flatten(
                call
            ):  # sizes written out, as in x.view(-1, 16 * 5 * 5), say the same
                return Call("torch.flatten", inputs=(inputs[0],), options={"start_dim": 1})
            return Call(call.op, inputs=inputs, options=options, detached=call.detached)
        stateful = any(True for _ in call.module.state_dict())
        again = modules.setdefault(id(call.module), number) if stateful else number
        record = record_of(call.module)
        write = signature_arguments if record is None else record.naming.arguments
        sized = terms.scope.sized(self.sizes.arguments.get(call.index, {}))
        arguments = write(call.module) | sized
        held = dict(call.module.named_parameters())
        keys = {part: self.traced.parameter(f"{call.where}.{part}") for part in held}
        shared = tuple(p for p, key in keys.items() if key in self.held or is_shared(held[p]))
        frozen = tuple(part for part, p in held.items() if not p.requires_grad)
        whole = bool(held) and not call.trains
        return Call(
            op=call.op,
            arguments=arguments,
            inputs=inputs,
            options=options,
            frozen=whole,
            frozen_parts=() if whole else frozen,
            shared_parts=shared,
            again=again if again != number else None,
            detached=call.detached,
        )

    def _constant(self, call: TracedCall, scope: Scope) -> Call:
        """A parameter or buffer that a user's module holds itself."""
        if call.parameter is None:
            raise ModelError(f"{call.op} holds no tensor")
        shape = tuple(map(scope.size, self.sizes.of(Value(call.index))))
        arguments: dict[str, Term] = {"shape": shape}
        dtype = str(call.parameter.dtype).rpartition(".")[2]
        if dtype != "float32":
            arguments["dtype"] = dtype
        if call.op == "buffer":
            return Call(call.op, arguments, frozen=not call.trains)
        shared = self.traced.parameter(call.name) in self.held or is_shared(call.parameter)
        frozen = not call.parameter.requires_grad
        return Call(call.op, arguments, frozen=frozen, shared_parts=("value",) if shared else ())


def _is_checkpointed(group: Segment) -> bool:
    """Whether most of a layer is run again; what follows it, such as a sum, may be outside."""
    calls = [call for call in group if call.parameter is None]
    return 2 * sum(call.checkpointed for call in calls) > len(calls)


def _ranks(sizes: Sizes, group: Segment) -> set[Channels]:
    """Channels made by what is trained beside frozen weights: the rank of an adapter."""
    weighted = [call for call in group if _makes_channels(call, sizes)]
    if all(call.trains for call in weighted):
        return set()
    made = (
        dim
        for call in weighted
        if call.trains
        for path in call.outputs
        for dim in sizes.of(Value(call.index, path))
    )
    return {dim.root for dim in made if isinstance(dim, Scaled)}


def _makes_channels(call: TracedCall, sizes: Sizes) -> bool:
    record = record_of(call.module)
    sizing = None if record is None else record.sizing
    return sizing is not None and sizing.makes in sizes.arguments.get(call.index, {})


@dataclass(frozen=True)
class _Terms:
    """How arguments of calls are written inside one layer."""

    scope: Scope
    on_meta: bool  # all that the layer is given or holds

    def result(self, tree: Any) -> Term:
        """What comes out: a value, or a tuple or dict of them."""
        result: Term = map_leaves(
            lambda leaf: self.scope.value(leaf) if isinstance(leaf, Value) else None,
            with_tuples(tree),
        )
        return result

    def tree(self, tree: Any, call: TracedCall) -> Term:
        """An argument as a term."""
        if not call.op.endswith("item__"):  # x[[0, 2]] is not x[0, 2]
            tree = with_tuples(tree)
        term: Term = map_leaves(lambda leaf: self._leaf(leaf, call), tree)
        return term

    def _leaf(self, leaf: Any, call: TracedCall) -> Any:
        if isinstance(leaf, Value):
            return self.scope.value(leaf)
        if isinstance(leaf, Scaled):
            return self.scope.size(leaf)
        if isinstance(leaf, Power):
            size = self.scope.size(leaf.dim)
            if isinstance(size, int):
                return float(float(size) ** leaf.exponent)
            return SizePower(size, leaf.exponent)
        if isinstance(leaf, torch.device):
            # Beside meta the CPU is a place of its own, where a table is made before it is moved.
            return "cpu" if self.on_meta and leaf.type == "cpu" else InputDevice()
        if isinstance(leaf, torch.dtype):
            return DType(str(leaf).rpartition(".")[2])
        if isinstance(leaf, torch.memory_format):
            return MemoryFormat(str(leaf).rpartition(".")[2])
        if leaf is None or leaf is Ellipsis or isinstance(leaf, bool | int | float | str):
            return leaf
        raise ModelError(f"{call.where or 'the model'}: cannot write down {leaf!r} in {call.op}")


def _vocabulary(group: Segment, value: Value, below: int | None) -> int:
    limits = []
    for call in group:
        record = record_of(call.module)
        if record is not None and record.sizing is not None and value in call.inputs:
            argument = record.sizing.ids_below
            if argument is not None:
                limits.append(int(getattr(call.module, argument)))
    return min(limits, default=below or 2)


def _is_flatten(call: TracedCall) -> bool:
    name = call.op.rpartition(".")[2]
    after = tuple(next(iter(call.outputs.values())).shape)
    return (
        name in ("view", "reshape", "flatten")
        and len(after) == 2
        and len(call.before) > 1
        and after[0] == call.before[0]
    )
