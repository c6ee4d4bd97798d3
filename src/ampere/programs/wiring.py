"""Layers wired into one program: every call knows which values it is given.

A layer counts its calls from 1, and calls what it is given 0; a program counts through all layers:

    layer 0: (1) conv(0)  (2) relu(1)         (1) conv(0.0)  (2) relu(1)
    layer 1: (1) flatten(0)  (2) linear(1)    (3) flatten(2)  (4) linear(3)

Engines work on values that do not change. Where torch overwrites one, whoever reads it afterwards
is given what was written.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence, Tuple  # for Python 3.8, on old devices

from ampere.core.layers import CHECKPOINTED, Layer, Role, Source, sources_of, structure_of
from ampere.core.program.sizes import shape_at
from ampere.core.program.structure import Call, Port
from ampere.core.program.terms import ValueRef, fill
from ampere.core.program.trees import leaves, map_leaves
from ampere.core.training import PLAIN, training_of
from ampere.errors import ModelError
from ampere.programs.parameters import held_by
from ampere.programs.program import Held, Input, Program, Step

# What shares its memory with what it is made of, by the last part of its name.
_VIEWS = """__getitem__ view reshape flatten unflatten squeeze unsqueeze permute transpose t
    swapaxes swapdims movedim moveaxis chunk split split_with_sizes tensor_split unbind narrow
    select expand expand_as view_as ravel __get__ diagonal Flatten Unflatten Identity contiguous"""
VIEWS = frozenset(_VIEWS.split())

# What a call holds: of the call, its arguments with numbers, its place, and the type of numbers.
Holding = Callable[[Call, Mapping[str, Any], Tuple[int, int], str], Tuple[Held, ...]]


def program_of(layers: Sequence[Layer], holding: Holding = held_by) -> Program:
    """The program of a network of layers, wired as they say.

    Args:
        layers: The network.
        holding: What calls hold; torch's modules by default, other dialects have their own.

    Raises:
        ModelError: A layer has no structure, or only torch can do what it does.
    """
    writer = _Writer(holding)
    sources = sources_of(layers)
    inputs = _inputs(layers, sources)
    for number, layer in enumerate(layers):
        writer.add(number, layer, sources[number])
    _refuse_writes_through_views(writer.steps)
    result = writer.results[-1]
    read = {source for reads in sources for source in reads}
    delivered = [(i, n) for i, count in enumerate(writer.outputs[:-1]) for n in range(count)]
    dangling = [writer.output(source) for source in delivered if source not in read]
    return Program(
        inputs=inputs,
        steps=tuple(writer.steps),
        result=result,
        dangling=tuple(leaf for leaf in leaves(dangling) if isinstance(leaf, ValueRef)),
        training=training_of(layers),
        ends_in_loss=layers[-1].kind.role is Role.LAST,
    )


def _inputs(layers: Sequence[Layer], sources: Sequence[tuple[Source, ...]]) -> tuple[Input, ...]:
    """What enters the network: as the first layer that reads it says."""
    found: dict[int, Input] = {}
    for layer, reads in zip(layers, sources):
        batch = int(layer.kind.attributes["batch"])
        for (source, number), port in zip(reads, structure_of(layer.kind).inputs):
            if source < 0:
                found.setdefault(number, _input(port, layer.widths, batch))
    unread = Input((0,))
    return tuple(found.get(number, unread) for number in range(1 + max(found, default=-1)))


def _input(port: Port, widths: Mapping[str, int], batch: int) -> Input:
    shape = shape_at(port.shape, widths)
    floats = port.dtype == "bfloat16" or port.dtype.startswith("float")
    return Input(
        shape if port.whole else (batch, *shape),
        port.dtype,
        port.below,
        port.grad and floats,
    )


class _Writer:
    """Adds layers to a list of steps."""

    def __init__(self, holding: Holding) -> None:
        self.holding = holding
        self.steps: list[Step] = []
        self.results: list[Any] = []  # of each layer, as trees
        self.outputs: list[int] = []  # how many each delivers
        self.newest: dict[ValueRef, ValueRef] = {}  # what was written over a value

    def add(self, number: int, layer: Layer, reads: Sequence[Source]) -> None:
        """Add the calls of a layer."""
        structure = structure_of(layer.kind)
        scope = _Scope([self.output(source) for source in reads], len(self.steps))
        held: dict[int, tuple[Held, ...]] = {}
        for k, call in enumerate(structure.calls, start=1):
            held[k] = held[call.again] if call.again else self._held(call, (number, k), layer)
            self._write(call, (number, k), layer, scope, held[k])
        self.results.append(self._resolved(scope.place(structure.result)))
        self.outputs.append(len(structure.outputs))

    def output(self, source: Source) -> Any:
        """What a layer, or the world outside, delivers: a tree, mostly of one value."""
        layer, number = source
        if layer < 0:
            return self._resolved(ValueRef(0, (number,)))
        result = self.results[layer]
        several = self.outputs[layer] > 1 or isinstance(result, tuple)
        return self._resolved(_inside(result, (number,)) if several else result)

    def _write(
        self,
        call: Call,
        place: tuple[int, int],
        layer: Layer,
        scope: _Scope,
        held: tuple[Held, ...],
    ) -> None:
        inputs = self._resolved(scope.place(fill(call.inputs, layer.widths)))
        options = self._resolved(scope.place(fill(dict(call.options), layer.widths)))
        self.steps.append(
            Step(
                op=call.op,
                layer=place[0],
                number=place[1],
                place=f"layer {place[0]}, {layer.name}",
                arguments=fill(dict(call.arguments), layer.widths),
                inputs=inputs,
                options=options,
                held=held,
                detached=call.detached,
                in_place=call.works_in_place,
                checkpointed=bool(layer.kind.attributes.get(CHECKPOINTED)),
            )
        )
        if call.works_in_place and inputs and isinstance(inputs[0], ValueRef):
            self.newest[inputs[0]] = ValueRef(len(self.steps))

    def _held(self, call: Call, place: tuple[int, int], layer: Layer) -> tuple[Held, ...]:
        arguments = fill(dict(call.arguments), layer.widths)
        dtype = str(layer.kind.attributes.get("dtype", PLAIN))
        return self.holding(call, arguments, place, dtype)

    def _resolved(self, tree: Any) -> Any:
        def newest(leaf: Any) -> Any:
            while isinstance(leaf, ValueRef) and leaf in self.newest:
                leaf = self.newest[leaf]
            return leaf

        return map_leaves(newest, tree)


class _Scope:
    """The values of one layer, as the program counts them."""

    def __init__(self, given: Sequence[Any], before: int) -> None:
        self.given, self.before = given, before

    def place(self, tree: Any) -> Any:
        """The same tree, with the program's numbers."""
        return map_leaves(self._leaf, tree)

    def _leaf(self, leaf: Any) -> Any:
        if not isinstance(leaf, ValueRef):
            return leaf
        if leaf.number:
            return leaf.moved(self.before)
        entering = tuple(self.given) if len(self.given) > 1 else self.given[0]
        return _inside(entering, leaf.path)


def _inside(tree: Any, path: Sequence[int | str]) -> Any:
    """The part of a tree that a path leads to; inside a value it is left to whoever runs it."""
    for at, step in enumerate(path):
        if isinstance(tree, ValueRef):
            return ValueRef(tree.number, (*tree.path, *path[at:]))
        tree = tree[step]
    return tree


def _refuse_writes_through_views(steps: Sequence[Step]) -> None:
    """What is written through a view changes what it is a view of: only torch has such memory."""
    for number, step in enumerate(steps, start=1):
        if not (step.in_place and step.inputs):
            continue
        for base in _bases(steps, step.inputs[0]):
            readers = [later for later in steps[number:] if base in later.sources]
            if readers:
                raise ModelError(
                    f"{step.where} writes through a view of what {readers[0].where} reads:"
                    " only the runtime torch trains that"
                )


def _bases(steps: Sequence[Step], value: Any) -> list[ValueRef]:
    """The values whose memory a value is a view of."""
    bases: list[ValueRef] = []
    while isinstance(value, ValueRef) and value.number:
        step = steps[value.number - 1]
        if step.op.rpartition(".")[2] not in VIEWS or not step.inputs:
            break
        value = step.inputs[0]
        bases += [value] if isinstance(value, ValueRef) else []
    return bases
