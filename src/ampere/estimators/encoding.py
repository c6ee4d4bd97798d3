"""Layers as numbers: what the additive method's processes take (see sum_process.py).

Coordinates are the logarithms of widths and of a kind's attributes (map size, kernel, batch), so
that kinds of one operation can learn from each other; attributes that are words, and the role, are
0 or 1; and that of the bytes that it works on, since caches end somewhere. Features are what the
mean is linear in: 1, FLOPs, bytes of activations and of parameters, and FLOPs with widths rounded
up to a tile. An operation whose FLOPs are not known throughout has the sum and the product of the
widths instead. Stairs are what widths lack to what devices do in one go: to the next tile, and to a
multiple that can be loaded as a vector. Traits are values of attributes (an optimiser, a batch)
that coefficients may vary with.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.core.layers import SIZE, Features, Layer, LayerIdentity, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.variants import MOST_LAYERS
from ampere.estimators.processes.linear_mean import Layers
from ampere.records.measurement import Measurement

# Every network has it once: what a step costs whatever its layers are.
STEP = Layer("step", LayerKind("step", Role.HIDDEN, "step"), Widths(), Features(0.0, 0.0, 0.0))

# A step; a layer; FLOPs, bytes of activations and of parameters; or, where FLOPs are not known, the
# sum and the product of the widths; FLOPs as a device does them that rounds widths up to a tile.
ROUNDED = (8, 32)
FEATURES = 7 + len(ROUNDED)
TILES = (8, 16, 32, 64)  # widths are done so many at a time
VECTOR = 3  # octaves of a multiple that is loaded as a vector: 8
STAIRS = len(TILES) + 1
MOST_ID = 2**40 - 87  # of numbers of layers: products with a million still are whole numbers
BYTES = "#bytes"  # the coordinate that follows no single width
FEW_VALUES = 16  # of an attribute that coefficients may vary with


def depth_context(layers: Iterable[Layer]) -> float:
    """How much deeper than a variant a network is, in octaves."""
    return math.log2(max(depth_of(layers), MOST_LAYERS) / MOST_LAYERS)


def depth_of(layers: Iterable[Layer]) -> int:
    """How many layers a network has; calls, as which it may be told, are none."""
    return sum(layer.count for layer in layers if not is_call(layer))


def is_call(layer: Layer) -> bool:
    """Whether it stands for calls, of whatever layers."""
    return SIZE in layer.kind.attributes


class Lent(NamedTuple):
    """What other devices say of layers."""

    typical: Array  # cost of each; 0 where they know nothing of it, (L,)
    apart: Array  # ways in which devices differ there, in standard deviations, (L, e)


class Lends(Protocol):
    """Other devices (see lenders.py)."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Those that were measured there."""
        ...

    def lend(self, layers: Sequence[Layer]) -> Lent:
        """What they say of these layers."""
        ...

    def knows(self, layer: Layer) -> bool:
        """Whether they say anything of it."""
        ...


@dataclass(frozen=True)
class Encoder:
    """Numbers for the operations, kinds and coordinates of the networks that were measured."""

    operations: Mapping[str, int]
    kinds: Mapping[str, int]
    operation_of: Mapping[str, str]  # of each kind, which is known by its name
    counted: frozenset[str]  # operations whose FLOPs are known
    coordinates: tuple[str, ...]
    traits: tuple[tuple[str, str], ...]  # attributes and values that coefficients may vary with
    rounded: bool = False  # whether FLOPs on tiles are features: for few rows they are too many
    lenders: Lends | None = None  # other devices, whose costs take the place of features

    @classmethod
    def of(
        cls, layers: Sequence[Layer], rounded: bool = False, lenders: Lends | None = None
    ) -> Encoder:
        """An encoder that knows these layers; its numbers do not depend on their order."""
        named = sorted({(layer.kind.name, layer.kind.operation) for layer in layers}, reverse=True)
        operation_of = dict(sorted(dict(named).items()))  # of several, the first in the alphabet
        operations = sorted(set(operation_of.values()))
        uncounted = {
            operation_of[layer.kind.name] for layer in layers if layer.features.flops is None
        }
        names = sorted({name for layer in layers for name in coordinates(layer)})
        return cls(
            {name: i for i, name in enumerate(operations)},
            {name: i for i, name in enumerate(operation_of)},
            operation_of,
            frozenset(operations) - uncounted,
            tuple(names),
            _varied_traits(layers),
            rounded,
            lenders,
        )

    def encode(self, layers: Sequence[Layer]) -> Layers:
        """Layers as arrays; those of the same identity get the same id."""
        n = len(layers)
        x, novel = np.zeros((n, len(self.coordinates))), np.zeros(n)
        index = {name: i for i, name in enumerate(self.coordinates)}
        operations = [self.operation(layer) for layer in layers]
        for i, layer in enumerate(layers):
            for name, value in coordinates(layer).items():
                if name == BYTES and self.is_unsized(operations[i]):
                    continue  # nobody counted them while measuring
                if name in index:
                    x[i, index[name]] = value
                else:
                    novel[i] += 1
        op = np.array([self.operations.get(name, _foreign(name)) for name in operations], int)
        kinds = [layer.kind.name for layer in layers]
        widths = [[np.array([width]) for width in layer.widths.values()] for layer in layers]
        own = np.array([self._features(layer) for layer in layers]).reshape(n, FEATURES)
        unsized = np.array([self.is_unsized(name) for name in operations], bool)
        lent = np.zeros((n, 0))
        if self.lenders is not None:
            typical, lent = self.lenders.lend(layers)
            known = typical > 0
            own = np.column_stack([np.where(known[:, None], 0.0, own), typical])
            novel = np.where(known, 0.0, novel + (op < 0))
            unsized &= ~known
        else:
            novel += op < 0
        return Layers(
            features=own,
            x=x,
            op=op,
            kind=np.array([self.kinds.get(name, _foreign(name)) for name in kinds], int),
            id=np.array([_number(layer.identity) for layer in layers], int),
            stairs=np.array([stairs(each, 1)[0] for each in widths]).reshape(n, STAIRS),
            traits=np.array([self._traits(layer) for layer in layers]).reshape(n, len(self.traits)),
            novel=novel,
            unsized=unsized,
            lent=lent,
        )

    def _traits(self, layer: Layer) -> list[float]:
        own = dict(traits(layer))
        return [float(own.get(name) == value) for name, value in self.traits]

    def is_unsized(self, operation: str) -> bool:
        """Whether an operation was measured, and nobody knows what its layers do."""
        return operation in self.operations and operation not in self.counted

    def knows(self, layer: Layer) -> bool:
        """Whether layers of this kind were measured."""
        return layer.kind.name in self.kinds

    def covers(self, layer: Layer) -> bool:
        """Whether anything can be said of a layer: it has the features that the mean takes."""
        if self.is_unsized(self.operation(layer)) or self.is_lent(layer):
            return True
        return layer.features.flops is not None and bool(self.counted - {STEP.kind.operation})

    def is_lent(self, layer: Layer) -> bool:
        """Whether other devices say what it costs."""
        return self.lenders is not None and self.lenders.knows(layer)

    def is_familiar(self, layer: Layer) -> bool:
        """Whether its operation was measured, here or on other devices."""
        return self.operation(layer) in self.operations or self.is_lent(layer)

    def operation(self, layer: Layer) -> str:
        """The operation as it was measured, or as it is named."""
        return self.operation_of.get(layer.kind.name, layer.kind.operation)

    def columns(self, layer: Layer, counted: Array, widths: Sequence[Ints]) -> Array:
        """Features of a layer at several sizes: FLOPs and bytes (n, 3), and its widths there."""
        columns = np.zeros((len(counted), FEATURES))
        if layer.kind == STEP.kind:
            columns[:, 0] = 1.0
            return columns
        columns[:, 1] = 1.0
        if self.is_unsized(self.operation(layer)):
            columns[:, 5] = np.sum([np.zeros(len(counted)), *widths], axis=0)
            columns[:, 6] = np.prod([np.ones(len(counted)), *widths], axis=0)
            return columns
        columns[:, 2:5] = counted
        for i, tile in enumerate(ROUNDED if self.rounded else (), 7):
            more = [-(-sizes // tile) * tile / sizes for sizes in widths]
            columns[:, i] = counted[:, 0] * np.prod([np.ones(len(counted)), *more], axis=0)
        return columns

    def _features(self, layer: Layer) -> Array:
        counted = [[value or 0.0 for value in layer.features.numbers]]
        widths = [np.array([width]) for width in layer.widths.values()]
        return np.asarray(self.columns(layer, np.array(counted), widths)[0])


def stairs(widths: Sequence[Ints], n: int) -> Array:
    """What n layers' widths lack, in octaves: to the next tile of each size, and to a vector."""
    columns = np.zeros((n, STAIRS))
    for sizes in widths:
        for i, tile in enumerate(TILES):
            columns[:, i] += np.log2(-(-sizes // tile) * tile / sizes)
        columns[:, -1] += 1 - np.log2(np.gcd(sizes, 2**VECTOR)) / VECTOR
    return columns


def _number(identity: LayerIdentity) -> int:
    """A number that is the same for the same layer, in every process."""
    return _hash(repr(identity))


def _foreign(name: str) -> int:
    """A number below 0 for what was never measured, the same for the same name."""
    return -2 - _hash(name)


def unmeasured_ids(layer: Layer, widths: Mapping[str, Ints], n: int) -> Ints:
    """Numbers below 0 for a layer at n combinations of widths: the same layer, the same number."""
    kind, _, attributes = layer.identity
    numbers = np.full(n, _hash(repr((kind, attributes))))
    for name in sorted(widths):
        numbers = (numbers * 1_000_003 + widths[name]) % MOST_ID
    return np.asarray(-2 - numbers)


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % MOST_ID


def coordinates(layer: Layer) -> dict[str, float]:
    """Where a layer stands among those of its operation."""
    places = {name: math.log2(width) for name, width in layer.widths.items()}
    for name, value in layer.kind.attributes.items():
        if name == SIZE:
            continue
        if isinstance(value, (int, float)) and value >= 0:
            places[f"@{name}"] = math.log2(1 + value)
        else:
            places[f"@{name}={value}"] = 1.0
    places[f"@{layer.kind.role.value}"] = 1.0
    if layer.features.flops is not None:
        _, activations, parameters = layer.features.numbers
        places[BYTES] = float(log_bytes((activations or 0.0) + (parameters or 0.0)))
    return places


def log_bytes(worked_on: float | Array) -> Array:
    """The coordinate of the bytes that layers work on."""
    return np.asarray(np.log2(1 + np.asarray(worked_on)))


def traits(layer: Layer) -> Iterator[tuple[str, str]]:
    """Attributes of a layer, and its role, each with its value as a text."""
    for name, value in layer.kind.attributes.items():
        if name != SIZE:
            yield name, repr(value)
    yield "@role", layer.kind.role.value


def _varied_traits(layers: Sequence[Layer]) -> tuple[tuple[str, str], ...]:
    """Those that some layers have and others have not; of few values each."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for layer in layers:
        if layer.kind != STEP.kind:
            for name, value in traits(layer):
                values[name].add(value)
    few = {name: found for name, found in values.items() if 1 < len(found) <= FEW_VALUES}
    return tuple((name, value) for name in sorted(few) for value in sorted(few[name]))


def bounds_by_kind(layers: Iterable[Layer]) -> dict[str, dict[str, tuple[float, float]]]:
    """The smallest and largest of each width and attribute of some layers, kind by kind."""
    by_kind: dict[str, dict[str, tuple[float, float]]] = {}
    for layer in layers:
        bounds = by_kind.setdefault(layer.kind.name, {})
        for name, value in numbers_of(layer).items():
            low, high = bounds.get(name, (value, value))
            bounds[name] = (min(low, value), max(high, value))
    return by_kind


def numbers_of(layer: Layer) -> dict[str, float]:
    """Widths, and attributes that are numbers."""
    attributes = layer.kind.attributes.items()
    known = {f"@{name}": value for name, value in attributes if isinstance(value, (int, float))}
    return {**layer.widths, **known}


def in_order(rows: Iterable[Measurement]) -> list[Measurement]:
    """Rows in an order that does not depend on when they were told."""

    def place(row: Measurement) -> tuple[str, float]:
        keys = [[*map(repr, layer.identity), layer.count] for layer in row.layers]
        return json.dumps(keys), row.energy_j

    return sorted(rows, key=place)


def distinct(networks: Sequence[Sequence[Layer]]) -> tuple[list[Layer], Array]:
    """The different layers of some networks, and how many of each every network has."""
    index: dict[LayerIdentity, int] = {}
    layers: list[Layer] = []
    for network in networks:
        for layer in network:
            number = index.get(layer.identity)
            if number is None:
                index[layer.identity] = len(layers)
                layers.append(layer)
            elif layers[number].features.flops is None:  # it may be counted in one row only
                layers[number] = layer
    return layers, count(networks, layers)


def count(networks: Sequence[Sequence[Layer]], layers: Sequence[Layer]) -> Array:
    """How many of each of these layers every network has; they are all there."""
    index = {layer.identity: i for i, layer in enumerate(layers)}
    counts = np.zeros((len(networks), len(layers)))
    for row, network in zip(counts, networks, strict=True):
        for layer in network:
            row[index[layer.identity]] += layer.count * layer.part
    return counts
