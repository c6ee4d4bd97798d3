"""A group of traced calls written down as a layer: a structure with symbolic sizes, and widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from flax import nnx

import jax
from ampere.core.graph.borders import Borders
from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Channels, Dim, Scaled, Sizes, free
from ampere.core.graph.kinds import describe
from ampere.core.graph.naming import Naming, name_channels
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, Role
from ampere.core.program.sizes import Size
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import DType, Term, ValueRef
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
        scope = _Scope(naming.names, numbers, borders.entering)
        structure = Structure(
            inputs=tuple(self._port(value, group, scope) for value in borders.entering),
            outputs=tuple(self._port(value, group, scope) for value in borders.leaving),
            calls=self._calls(group, scope),
            result=scope.tree(borders.result),
            multiples=naming.multiples,
            dialect=DIALECT,
        )
        again = 2 * sum(call.checkpointed for call in group) > len(group)
        kind = describe(structure, role, self.training, cores, again)
        return Layer(name, kind, Widths(naming.widths))

    def settle(self, groups: Sequence[Group], borders: Sequence[Borders]) -> None:
        """What one layer asks of a width (its heads) holds for all layers that it is tied to."""
        for group, border in zip(groups, borders, strict=True):
            naming = name_channels(self.sizes, group, border)
            for root, size in naming.names.items():
                if size.width in naming.multiples:
                    ratio = Fraction(size.times, size.over)
                    root.require((ratio * naming.multiples[size.width]).numerator)

    def hold(self, group: Group) -> int:
        """Count the parameters of a group, and those of later layers as shared with it."""
        fresh: dict[str, int] = {}
        for call in group:
            fresh.update(_parameters(call))
        params = sum(size for key, size in fresh.items() if key not in self.held)
        self.held.update(fresh)
        return params

    def _port(self, value: Value, group: Group, scope: _Scope) -> Port:
        shape, dims = self.shapes[value], self.sizes.of(value)
        whole = not dims or dims[0] != self.traced.batch
        below = None
        if value in self.fed and jax.numpy.issubdtype(shape.dtype, jax.numpy.integer):
            below = _vocabulary(group, value, self.fed[value].below)
        sizes = tuple(scope.size(dim) for dim in (dims if whole else dims[1:]))
        return Port(sizes, str(shape.dtype), below, value in self.traced.reached, whole)

    def _calls(self, group: Group, scope: _Scope) -> tuple[Call, ...]:
        modules: dict[int, int] = {}  # a module that runs twice is built once
        return tuple(
            self._call(call, scope, modules, number) for number, call in enumerate(group, start=1)
        )

    def _call(self, call: TracedCall, scope: _Scope, modules: dict[int, int], number: int) -> Call:
        if call.is_constant:
            return self._constant(call, scope)
        args, kwargs = self.sizes.templates.get(call.index, (call.args, call.kwargs))
        inputs = tuple(scope.tree(part) for part in args)
        options = {name: scope.tree(part) for name, part in kwargs.items()}
        if call.module is None:
            return Call(call.op, inputs=inputs, options=options)
        again = modules.setdefault(id(call.module), number)
        arguments = arguments_of(call.module)
        for name, dim in self.sizes.arguments.get(call.index, {}).items():
            if isinstance(dim, tuple):
                arguments[name] = tuple(map(scope.size, dim))
            else:
                arguments[name] = scope.size(dim)
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

    def _constant(self, call: TracedCall, scope: _Scope) -> Call:
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


class _Scope:
    """How sizes and values are written inside one layer."""

    def __init__(
        self,
        names: Mapping[Channels, Size],
        numbers: Mapping[int, int],
        entering: Sequence[Value],
    ) -> None:
        self.names, self.numbers = names, numbers
        self.entering = {value: i for i, value in enumerate(entering)}

    def size(self, dim: Dim) -> int | Size:
        if isinstance(dim, int):
            return dim
        name = self.names.get(dim.root)
        if name is None or not free(dim):
            return dim.size
        ratio = Fraction(name.times, name.over) * dim.factor
        return Size(name.width, ratio.numerator, ratio.denominator)

    def value(self, value: Value) -> ValueRef:
        if value not in self.entering:
            return ValueRef(self.numbers[value.call], value.path)
        several = len(self.entering) > 1
        return ValueRef(0, (self.entering[value],) if several else ())

    def tree(self, tree: Any) -> Term:
        """An argument as a term."""
        term: Term = map_leaves(self._leaf, _with_tuples(tree))
        return term

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return self.value(leaf)
        if isinstance(leaf, Scaled):
            return self.size(leaf)
        if leaf is None or isinstance(leaf, bool | int | float | str | DType):
            return leaf
        raise ModelError(f"cannot write down {leaf!r} in a call")


def _with_tuples(tree: Any) -> Any:
    """A tree with tuples in the place of lists, and texts in that of other names."""
    if isinstance(tree, list | tuple):
        return tuple(map(_with_tuples, tree))
    if isinstance(tree, dict):
        return {str(name): _with_tuples(part) for name, part in tree.items()}
    return tree


def _vocabulary(group: Group, value: Value, below: int | None) -> int:
    """What token ids must stay below: the tables that they are looked up in."""
    tables = [call.module for call in group if call.op == "Embed" and value in call.inputs]
    return min((int(table.num_embeddings) for table in tables), default=below or 2)
