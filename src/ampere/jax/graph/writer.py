"""A group of traced calls written down as a layer: a structure with symbolic sizes, and widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flax import nnx

import jax
from ampere.core.graph.borders import Borders
from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Scaled, Sizes
from ampere.core.graph.kinds import describe
from ampere.core.graph.naming import Naming, name_channels
from ampere.core.graph.scope import Scope, settle, with_tuples
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, Role
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import DType, Term
from ampere.core.program.trees import map_leaves
from ampere.core.program.widths import Widths
from ampere.core.training import PLAIN, Training
from ampere.errors import ModelError
from ampere.jax.graph import cores
from ampere.jax.graph.registry import arguments_of
from ampere.jax.graph.trace import Trace, TracedCall
from ampere.jax.runtime.modules import named_leaves

DIALECT = "jax"
Group = Sequence[TracedCall]


class Writer:
    """Writes a group of calls as a layer: structure with symbolic sizes, kind, widths."""

    def __init__(self, traced: Trace, sizes: Sizes, inputs: Inputs, training: Training) -> None:
        self.traced, self.sizes, self.training = traced, sizes, training
        self.fed = dict(zip(traced.inputs, inputs, strict=True))
        self.shapes = dict(traced.inputs) | {
            Value(call.index, path): shape
            for call in traced.calls
            for path, shape in call.outputs.items()
        }
        self.held: dict[str, int] = {}  # parameters that layers before hold already

    def layer(
        self, name: str, group: Group, borders: Borders, role: Role, resizable: bool = True
    ) -> Layer:
        """The layer that these calls are; its kind is told from its structure."""
        numbers = {call.index: k for k, call in enumerate(group, start=1)}
        naming = name_channels(self.sizes, group, borders) if resizable else Naming()
        scope = Scope(naming.names, numbers, borders.entering)
        structure = Structure(
            inputs=tuple(self._port(value, group, scope) for value in borders.entering),
            outputs=tuple(self._port(value, group, scope) for value in borders.leaving),
            calls=self._calls(group, scope),
            result=_term(borders.result, scope),
            multiples=naming.multiples,
            dialect=DIALECT,
        )
        again = 2 * sum(call.checkpointed for call in group) > len(group)
        kind = describe(structure, role, self.training, cores, again)
        return Layer(name, kind, Widths(naming.widths))

    def settle(self, groups: Sequence[Group], borders: Sequence[Borders]) -> None:
        """What one layer asks of a width (its heads) holds for all layers that it is tied to."""
        for group, border in zip(groups, borders, strict=True):
            settle(name_channels(self.sizes, group, border))

    def hold(self, group: Group) -> int:
        """Count the parameters of a group, and those of later layers as shared with it."""
        fresh: dict[str, int] = {}
        for call in group:
            fresh.update(_parameters(call))
        params = sum(size for key, size in fresh.items() if key not in self.held)
        self.held.update(fresh)
        return params

    def _port(self, value: Value, group: Group, scope: Scope) -> Port:
        shape, dims = self.shapes[value], self.sizes.of(value)
        whole = not dims or dims[0] != self.traced.batch
        below = None
        if value in self.fed and jax.numpy.issubdtype(shape.dtype, jax.numpy.integer):
            below = _vocabulary(group, value, self.fed[value].below)
        sizes = tuple(scope.size(dim) for dim in (dims if whole else dims[1:]))
        return Port(sizes, str(shape.dtype), below, value in self.traced.reached, whole)

    def _calls(self, group: Group, scope: Scope) -> tuple[Call, ...]:
        modules: dict[int, int] = {}  # a module that runs twice is built once
        return tuple(
            self._call(call, scope, modules, number) for number, call in enumerate(group, start=1)
        )

    def _call(self, call: TracedCall, scope: Scope, modules: dict[int, int], number: int) -> Call:
        if call.is_constant:
            return self._constant(call, scope)
        args, kwargs = self.sizes.templates.get(call.index, (call.args, call.kwargs))
        inputs = tuple(_term(part, scope) for part in args)
        options = {name: _term(part, scope) for name, part in kwargs.items()}
        if call.module is None:
            return Call(call.op, inputs=inputs, options=options)
        again = modules.setdefault(id(call.module), number)
        sized = scope.sized(self.sizes.arguments.get(call.index, {}))
        arguments = arguments_of(call.module) | sized
        own = {
            name: f"{call.where}.{name}"
            for name, _ in named_leaves(nnx.state(call.module, nnx.Param))
        }
        shared = tuple(name for name, key in own.items() if key in self.held)
        return Call(
            op=call.op,
            arguments=arguments,
            inputs=inputs,
            options=options,
            shared_parts=shared,
            again=again if again != number else None,
        )

    def _constant(self, call: TracedCall, scope: Scope) -> Call:
        """A parameter or buffer that a user's module holds itself."""
        shape = tuple(map(scope.size, self.sizes.of(Value(call.index))))
        arguments: dict[str, Term] = {"shape": shape}
        dtype = str(self.shapes[Value(call.index)].dtype)
        if dtype != PLAIN:
            arguments["dtype"] = dtype
        shared = call.op == "parameter" and call.name in self.held
        return Call(call.op, arguments, shared_parts=("value",) if shared else ())


def _parameters(call: TracedCall) -> dict[str, int]:
    """The parameters of a call, by the names that they have in the model."""
    if call.op == "parameter":
        (shape,) = call.outputs.values()
        return {call.name: int(shape.size)}
    if call.module is None:
        return {}
    leaves = named_leaves(nnx.state(call.module, nnx.Param))
    return {f"{call.where}.{name}": int(leaf.size) for name, leaf in leaves}


def _term(tree: Any, scope: Scope) -> Term:
    """An argument as a term."""

    def written(leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return scope.value(leaf)
        if isinstance(leaf, Scaled):
            return scope.size(leaf)
        if leaf is None or isinstance(leaf, bool | int | float | str | DType):
            return leaf
        raise ModelError(f"cannot write down {leaf!r} in a call")

    term: Term = map_leaves(written, with_tuples(tree))
    return term


def _vocabulary(group: Group, value: Value, below: int | None) -> int:
    """What token ids must stay below: the tables that they are looked up in."""
    tables = [call.module for call in group if call.op == "Embed" and value in call.inputs]
    return min((int(table.num_embeddings) for table in tables), default=below or 2)
