"""Which channels go together: every index of every weight, followed to the channel that it serves.

`graph.sizes` follows how many channels there are; this follows which. A layer that makes channels
has an element for each. Elements that meet, in a residual add, a product, a head or a norm, are one
component: they stay or go as one. Modules with weights have rules in their records; any other call
is asked whether it only moves numbers (`moves`), and keeps the order of what it is given if not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ampere.core.arrays import Ints
from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Channels, Dim, Dims, Scaled, free
from ampere.core.program.trees import Path
from ampere.pytorch.graph.model_reading import ModelReading
from ampere.pytorch.graph.recorder import TracedCall
from ampere.pytorch.modules.registry import record_of, record_of_function
from ampere.pytorch.pruning.moves import find_sources

Labels = dict[int, Ints]  # of a tensor: for each dimension that varies, the element of each index

# They keep every number at its place: asking is only needed for what may move them.
ARITHMETIC = {
    *("add", "add_", "__add__", "__iadd__", "sub", "__sub__", "mul", "mul_", "__mul__", "div"),
}


class Uncoupled(Exception):
    """Nobody can say which channels come out of a call."""


@dataclass
class Coupling:
    """The elements of a model, joined where they meet, and the weights that belong to them.

    `slices` has the element of every index, for each dimension of a parameter or buffer, by name,
    that follows channels.
    """

    origins: list[tuple[Channels, Ints]] = field(default_factory=list)
    slices: dict[tuple[str, int], Ints] = field(default_factory=dict)
    stuck: set[Channels] = field(default_factory=set)  # they cannot be followed, so not be cut
    count: int = 0  # of elements
    joined: list[tuple[Ints, Ints]] = field(default_factory=list)  # the same, one by one

    def start(self, dim: Scaled, count: int) -> Ints:
        """New elements of channels that a layer makes."""
        elements = np.arange(self.count, self.count + count)
        self.count += count
        self.origins.append((dim.root, elements))
        return elements

    def join(self, ours: Ints, theirs: Ints) -> None:
        """From now on these elements are the same, one by one."""
        if len(ours) != len(theirs):
            raise ValueError(f"{len(ours)} elements cannot be {len(theirs)} others")
        self.joined.append((ours, theirs))

    def components(self) -> Ints:
        """The component of each element: the first element in it."""
        from scipy.sparse import coo_array  # not needed to read a model, and slow to import
        from scipy.sparse.csgraph import connected_components

        ours, theirs = (
            np.concatenate([np.empty(0, np.intp), *side])
            for side in (zip(*self.joined, strict=True) if self.joined else ((), ()))
        )
        graph = coo_array((np.ones(len(ours), bool), (ours, theirs)), (self.count, self.count))
        _, labels = connected_components(graph, directed=False)
        _, first = np.unique(labels, return_index=True)
        return np.asarray(first[labels], dtype=np.intp)


def couple(reading: ModelReading) -> Coupling:
    """Follow every channel of a model that can vary through all of its calls."""
    return Follower(reading).run()


class Follower:
    """Goes through a trace with the labels of every value."""

    def __init__(self, reading: ModelReading) -> None:
        self.sizes, self.trace = reading.sizes, reading.trace
        named = {root for part in reading.parts for root in part.names}
        self.roots = {root for root in named if not root.pinned}
        self.coupling = Coupling()
        self.labels: dict[Value, Labels] = {value: {} for value in reading.trace.inputs}
        self.read = {value for call in reading.trace.calls for value in call.inputs}
        self.ran: dict[str, Ints] = {}  # what modules made: a second run has the same weights
        self.tensors = dict(reading.trace.inputs) | {
            Value(call.index, path): tensor
            for call in reading.trace.calls
            for path, tensor in call.outputs.items()
        }
        self.asked: dict[Any, dict[Path, Ints] | None] = {}

    def run(self) -> Coupling:
        """Go through all calls; what a call makes of channels that nobody can follow is stuck."""
        for call in self.trace.calls:
            try:
                labels = self._labels_of(call)
            except Uncoupled:
                labels = {}
                dims = [self._dims(value) for value in (*call.inputs, *self._made(call))]
                self.coupling.stuck.update(
                    dim.root for each in dims for dim in each
                    if isinstance(dim, Scaled) and self.varies(dim)
                )  # fmt: skip
            for path in call.outputs:
                self.labels[Value(call.index, path)] = labels.get(path, {})
        return self.coupling

    def _labels_of(self, call: TracedCall) -> dict[Path, Labels]:
        if call.parameter is not None:
            return {(): self._constant(call)}
        if not any(self.varies(dim) for value in self._made(call) for dim in self._dims(value)):
            arguments = self.sizes.arguments.get(call.index, {})
            if not any(self.varies(dim) for dim in _flat(arguments.values())):
                self._meet(call)
                return {}
        record = record_of(call.module)
        if record is not None and record.pruning is not None and call.inputs:
            return record.pruning.rule(self, call)
        if call.module is not None and any(True for _ in call.module.state_dict()):
            raise Uncoupled
        return self._function(call)

    def _made(self, call: TracedCall) -> list[Value]:
        return [Value(call.index, path) for path in call.outputs]

    def _dims(self, value: Value) -> Dims:
        return self.sizes.dims.get(value, ())

    def varies(self, dim: Any) -> bool:
        """Whether a dimension follows channels that can be cut."""
        return free(dim) and dim.root in self.roots

    def argument(self, call: TracedCall, name: str) -> Dim | Dims | None:
        """What an argument of a module is as a size, if it is one."""
        return self.sizes.arguments.get(call.index, {}).get(name)

    def dims_of(self, call: TracedCall) -> Dims:
        """The dimensions of the one tensor that a call makes."""
        return self._dims(Value(call.index))

    def labels_of(self, value: Value) -> Labels:
        """The elements along every dimension of a value that varies."""
        return self.labels[value]

    def start(self, dim: Scaled, count: int) -> Ints:
        """New elements of channels that a module makes."""
        return self.coupling.start(dim, count)

    def join(self, ours: Ints, theirs: Ints) -> None:
        """These elements stay or go together, one by one."""
        self.coupling.join(ours, theirs)

    def along(self, value: Value, position: int) -> Ints:
        """The elements along a dimension of a value."""
        dims = self._dims(value)
        elements = self.labels[value].get(position % len(dims))
        if elements is None:
            raise Uncoupled
        return elements

    def _constant(self, call: TracedCall) -> Labels:
        labels: Labels = {}
        for i, dim in enumerate(self._dims(Value(call.index))):
            if isinstance(dim, Scaled) and self.varies(dim):
                if not call.name:
                    raise Uncoupled
                labels[i] = self.coupling.start(dim, dim.size)
                self._slice(self.trace.parameter(call.name), i, labels[i])
        return labels

    def _slice(self, name: str, dim: int, elements: Ints) -> None:
        first_use = self.coupling.slices.setdefault((name, dim), elements)
        if first_use is not elements:  # tied weights: both uses have the same channels
            self.coupling.join(first_use, elements)

    def weight(self, call: TracedCall, part: str, dim: int, elements: Ints | None) -> None:
        """One dimension of a module's parameter or buffer follows these elements."""
        module = call.module
        if module is None or elements is None:
            return
        if any(name == part for name, _ in (*module.named_parameters(), *module.named_buffers())):
            name = f"{call.where}.{part}" if call.where else part
            self._slice(self.trace.parameter(name), dim, elements)

    def entering(self, call: TracedCall, position: int) -> Ints | None:
        """The elements along a dimension of the first input, if it varies."""
        value = call.inputs[0]
        dim = self._dims(value)[position]
        stuck = isinstance(dim, Scaled) and dim.root in self.coupling.stuck
        return self.along(value, position) if self.varies(dim) and not stuck else None

    def made(self, call: TracedCall, argument: str, count: int) -> Ints | None:
        """Elements of the channels that a module makes, if they vary; the same in a second run."""
        dim: Any = self.argument(call, argument)
        if not self.varies(dim):
            return None
        if call.where not in self.ran:
            self.ran[call.where] = self.coupling.start(dim, count)
        return self.ran[call.where]

    def together(self, elements: Ints | None, blocks: int) -> None:
        """The same places of each of several equal blocks stay or go together."""
        if elements is not None and blocks > 1:
            first, *others = np.split(elements, blocks)
            for other in others:
                self.coupling.join(first, other)

    def passed_on(self, call: TracedCall, position: int, elements: Ints | None) -> Labels:
        """The labels of the first input, one of its dimensions replaced."""
        value = call.inputs[0]
        rank = len(self._dims(value))
        labels = {i: each for i, each in self.labels[value].items() if i != position % rank}
        return labels if elements is None else {**labels, position % rank: elements}

    def is_read(self, call: TracedCall, path: Path) -> bool:
        """Whether anything reads this output of a call."""
        return Value(call.index, path) in self.read

    def _function(self, call: TracedCall) -> dict[Path, Labels]:
        sources = None if _keeps_places(call) else self._sources(call)
        return self._kept_order(call) if sources is None else self._followed(call, sources)

    def _meet(self, call: TracedCall) -> None:
        """Dimensions of two inputs that are the same channels meet index by index."""
        seen: dict[tuple[Channels, Any], Ints] = {}
        for value in call.inputs:
            for i, elements in self.labels[value].items():
                dim = self._dims(value)[i]
                if isinstance(dim, Scaled):
                    met = seen.setdefault((dim.root, dim.factor), elements)
                    if met is not elements:
                        self.coupling.join(met, elements)

    def _kept_order(self, call: TracedCall) -> dict[Path, Labels]:
        self._meet(call)
        labels: dict[Path, Labels] = {}
        for path in call.outputs:
            dims = self._dims(Value(call.index, path))
            labels[path] = {
                i: self._same_dim(call, dim, len(dims) - i)
                for i, dim in enumerate(dims)
                if self.varies(dim)
            }
        return labels

    def _same_dim(self, call: TracedCall, dim: Dim, from_right: int) -> Ints:
        """Elements of an input's dimension with the same channels, at the same place if it can."""
        elsewhere: list[Ints] = []
        for value in call.inputs:
            dims = self._dims(value)
            for i, elements in self.labels[value].items():
                if _alike(dims[i], dim):
                    if len(dims) - i == from_right:
                        return elements
                    elsewhere.append(elements)
        if not elsewhere:
            raise Uncoupled
        return elsewhere[0]

    def _sources(self, call: TracedCall) -> dict[Path, Ints] | None:
        """Where each number that comes out went in; None where numbers are computed."""
        tensors = [self.tensors[value] for value in call.inputs]
        module = "" if call.module is None else repr(call.module)
        shapes = tuple(tuple(tensor.shape) for tensor in tensors)
        key = (call.op, module, repr(call.args), repr(call.kwargs), shapes)
        if key not in self.asked:
            self.asked[key] = find_sources(call, tensors)
        return self.asked[key]

    def _followed(self, call: TracedCall, sources: Mapping[Path, Ints]) -> dict[Path, Labels]:
        labels: dict[Path, Labels] = {}
        for path, source in sources.items():
            dims = self._dims(Value(call.index, path))
            labels[path] = {}
            for i, dim in enumerate(dims):
                if self.varies(dim) and isinstance(dim, Scaled):
                    entered = np.concatenate([self._spread(v, dim.root) for v in call.inputs])
                    elements = np.where(source >= 0, entered[source], -1)
                    labels[path][i] = self._one_each(np.moveaxis(elements, i, 0))
        return labels

    def _spread(self, value: Value, root: Channels) -> Ints:
        """The element of every number in a tensor; −1 where it has none of these channels."""
        dims = self._dims(value)
        shape = tuple(d if isinstance(d, int) else d.size for d in dims)
        for i, elements in self.labels[value].items():
            dim = dims[i]
            if isinstance(dim, Scaled) and dim.root is root:
                across = elements.reshape([-1 if k == i else 1 for k in range(len(dims))])
                return np.broadcast_to(across, shape).ravel()
        return np.full(int(np.prod(shape)), -1)

    def _one_each(self, elements: Ints) -> Ints:
        """One element for each index; several that meet in one index are joined."""
        rows = elements.reshape(len(elements), -1)
        highest = rows.max(1)
        if (highest < 0).any():
            raise Uncoupled
        mixed = ((rows != highest[:, None]) & (rows >= 0)).any(1)
        for row, top in zip(rows[mixed], highest[mixed], strict=True):
            others = np.unique(row[row >= 0])
            self.coupling.join(np.full(len(others), top), others)
        return np.asarray(highest)


def _keeps_places(call: TracedCall) -> bool:
    """Whether every number that comes out stands where its channel went in."""
    name = call.op.rpartition(".")[2]
    record = record_of_function(name) if call.module is None else record_of(call.module)
    return name in ARITHMETIC or (record is not None and record.keeps_places)


def _alike(a: Dim, b: Dim) -> bool:
    if not isinstance(a, Scaled) or not isinstance(b, Scaled):
        return False
    return a.root is b.root and a.factor == b.factor


def _flat(parts: Any) -> Iterator[Any]:
    for part in parts:
        yield from part if isinstance(part, tuple) else (part,)
