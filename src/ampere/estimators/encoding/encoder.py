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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.core.layers import Features, Layer, LayerIdentity, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.estimators.encoding.places import (
    BYTES,
    log_bytes,
    one_of_each,
    padding,
    places,
    sizes_of,
    stairs,
    starts,
    traits,
    varied_traits,
)
from ampere.estimators.processes.linear_mean import Layers
from ampere.records.measurement import Measurement

# Every network has it once: what a step costs whatever its layers are.
STEP = Layer("step", LayerKind("step", Role.HIDDEN, "step"), Widths(), Features(0.0, 0.0, 0.0))

# A step; a layer, or each step of a recurrent one; FLOPs, bytes of activations and of parameters;
# or, where FLOPs are not known, the sum and the product of the widths; FLOPs as a device does them
# that rounds widths up to a tile.
ROUNDED = (8, 32)
FEATURES = 7 + len(ROUNDED)
MOST_ID = 2**40 - 87  # of numbers of layers: products with a million still are whole numbers

# Distinct layers, and how many of each every network has, (t, L).
Networks: TypeAlias = "tuple[list[Layer], Array]"


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
    weighed: frozenset[str]  # and whose bytes are
    coordinates: tuple[str, ...]
    traits: tuple[tuple[str, str], ...]  # attributes and values that coefficients may vary with
    rounded: bool = False  # whether FLOPs on tiles are features: for few rows they are too many
    lenders: Lends | None = None  # other devices, whose costs take the place of features

    @classmethod
    def of(
        cls, layers: Sequence[Layer], rounded: bool = False, lenders: Lends | None = None
    ) -> Encoder:
        """An encoder that knows these layers; its numbers do not depend on their order."""
        kinds = [layer.kind for layer in one_of_each(layers)[0]]
        named = sorted({(kind.name, kind.operation) for kind in kinds}, reverse=True)
        operation_of = dict(sorted(dict(named).items()))  # of several, the first in the alphabet
        operations = sorted(set(operation_of.values()))
        uncounted = {
            operation_of[layer.kind.name] for layer in layers if layer.features.flops is None
        }
        unweighed = {
            operation_of[layer.kind.name] for layer in layers if None in layer.features.numbers
        }
        names = {name for kind in kinds for name in places(kind)}
        names |= {name for layer in layers for name in layer.widths}
        if any(layer.features.flops is not None for layer in layers):
            names.add(BYTES)
        return cls(
            {name: i for i, name in enumerate(operations)},
            {name: i for i, name in enumerate(operation_of)},
            operation_of,
            frozenset(operations) - uncounted,
            frozenset(operations) - uncounted - unweighed,
            tuple(sorted(names)),
            varied_traits(kind for kind in kinds if kind != STEP.kind),
            rounded,
            lenders,
        )

    def encode(self, layers: Sequence[Layer]) -> Layers:
        """Layers as arrays; those of the same identity get the same id."""
        firsts, which = one_of_each(layers)
        operations = [self.operation(layer) for layer in firsts]
        op = np.array([self.operations.get(name, _foreign(name)) for name in operations], int)
        kinds = [layer.kind.name for layer in firsts]
        kind = np.array([self.kinds.get(name, _foreign(name)) for name in kinds], int)
        unsized = np.array([self.is_unsized(name) for name in operations], bool)
        sizes = sizes_of(layers)
        x, novel = self._places(layers, firsts, which, unsized[which])
        own = self._features(layers, sizes, firsts, which)
        op, unsized, lent = op[which], unsized[which], np.zeros((len(layers), 0))
        if self.lenders is not None:
            typical, lent = self.lenders.lend(layers)
            known = typical > 0
            own = np.column_stack([np.where(known[:, None], 0.0, own), typical])
            novel = np.where(known, 0.0, novel + (op < 0))
            unsized = unsized & ~known
        else:
            novel += op < 0
        return Layers(
            features=own,
            x=x,
            op=op,
            kind=kind[which],
            id=np.array([_number(layer.identity) for layer in layers], int),
            stairs=stairs(sizes),
            traits=self._traits(firsts)[which],
            novel=novel,
            unsized=unsized,
            lent=lent,
        )

    def _places(
        self,
        layers: Sequence[Layer],
        firsts: Sequence[Layer],
        which: Ints,
        unsized: npt.NDArray[np.bool_],
    ) -> tuple[Array, Array]:
        """Coordinates of layers, and how many things about each were never measured."""
        index = {name: i for i, name in enumerate(self.coordinates)}
        x, novel = np.zeros((len(firsts), len(index))), np.zeros(len(firsts))
        for i, layer in enumerate(firsts):
            for name, value in places(layer.kind).items():
                if name in index:
                    x[i, index[name]] = value
                else:
                    novel[i] += 1
        x, novel = x[which], novel[which]
        for i, layer in enumerate(layers):
            for name, width in layer.widths.items():
                if name in index:
                    x[i, index[name]] = math.log2(width)
                else:
                    novel[i] += 1
        counted = np.array([layer.features.flops is not None for layer in layers], bool)
        counted &= ~unsized  # nobody counted them while measuring
        bare = np.array([self.is_unweighed(self.operation(each)) for each in firsts], bool)[which]
        if BYTES in index:
            numbers = _numbers(layers)
            weighed = counted & ~bare
            x[weighed, index[BYTES]] = log_bytes(numbers[weighed, 1] + numbers[weighed, 2])
            novel += weighed & np.array([None in each.features.numbers for each in layers], bool)
        else:
            novel += counted
        return x, novel

    def _traits(self, firsts: Sequence[Layer]) -> Array:
        found = np.zeros((len(firsts), len(self.traits)))
        for row, layer in zip(found, firsts, strict=True):
            own = dict(traits(layer.kind))
            row[:] = [own.get(name) == value for name, value in self.traits]
        return found

    def is_unsized(self, operation: str) -> bool:
        """Whether an operation was measured, and nobody knows what its layers do."""
        return operation in self.operations and operation not in self.counted

    def is_unweighed(self, operation: str) -> bool:
        """Whether an operation was measured, and nobody knows what bytes its layers move."""
        return operation in self.operations and operation not in self.weighed

    def knows(self, layer: Layer) -> bool:
        """Whether layers of this kind were measured."""
        return layer.kind.name in self.kinds

    def covers(self, layer: Layer) -> bool:
        """Whether anything can be said of a layer: it has the features that the mean takes."""
        if self.is_unsized(self.operation(layer)) or self.is_lent(layer):
            return True
        if self.lenders is not None and self.operation(layer) not in self.operations:
            return False  # the others' features went into what is lent, and leave no mean for it
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

    def columns(self, layer: Layer, counted: Array, sizes: Ints) -> Array:
        """Features of a layer at several sizes: FLOPs and bytes (n, 3), and its widths there."""
        return self._columns(counted, sizes, [layer], np.zeros(len(counted), int))

    def features(self, layers: Sequence[Layer]) -> Array:
        """What the mean is linear in."""
        return self._features(layers, sizes_of(layers), *one_of_each(layers))

    def _features(
        self, layers: Sequence[Layer], sizes: Ints, firsts: Sequence[Layer], which: Ints
    ) -> Array:
        return self._columns(_numbers(layers), sizes, firsts, which)

    def _columns(self, counted: Array, sizes: Ints, firsts: Sequence[Layer], which: Ints) -> Array:
        """Features of layers, whose kinds are those of `firsts`."""
        step = np.array([layer.kind == STEP.kind for layer in firsts], bool)[which]
        unsized = np.array([self.is_unsized(self.operation(each)) for each in firsts], bool)[which]
        columns = np.zeros((len(counted), FEATURES))
        columns[:, 0] = step
        columns[:, 1] = np.where(step, 0.0, np.array([starts(each.kind) for each in firsts])[which])
        columns[:, 2:5] = np.where((step | unsized)[:, None], 0.0, counted)
        bare = np.array([self.is_unweighed(self.operation(each)) for each in firsts], bool)[which]
        columns[bare, 3:5] = 0.0
        told = unsized & ~step  # by their sizes alone
        columns[told, 5] = sizes[told].sum(1)
        columns[told, 6] = np.where(sizes[told] > 0, sizes[told], 1.0).prod(1)
        for i, tile in enumerate(ROUNDED if self.rounded else (), 7):
            columns[:, i] = columns[:, 2] * padding(sizes, tile)
        return columns


def _numbers(layers: Sequence[Layer]) -> Array:
    """FLOPs and bytes of layers, 0 where nobody knows, (n, 3)."""
    numbers = [[value or 0.0 for value in layer.features.numbers] for layer in layers]
    return np.array(numbers).reshape(len(layers), 3)


def _number(identity: LayerIdentity) -> int:
    """A number that is the same for the same layer, in every process."""
    return number_of(repr(identity))


def _foreign(name: str) -> int:
    """A number below 0 for what was never measured, the same for the same name."""
    return -2 - number_of(name)


def unmeasured_ids(layer: Layer, widths: Mapping[str, Ints], n: int) -> Ints:
    """Numbers below 0 for a layer at n combinations of widths: the same layer, the same number."""
    kind, _, attributes = layer.identity
    numbers = np.full(n, number_of(repr((kind, attributes))))
    for name in sorted(widths):
        numbers = (numbers * 1_000_003 + widths[name]) % MOST_ID
    return np.asarray(-2 - numbers)


def number_of(text: str) -> int:
    """A number that is the same for the same text, in every process."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % MOST_ID


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


def is_beyond(layer: Layer, bounds: Mapping[str, tuple[float, float]]) -> bool:
    """Whether any of its numbers lies outside of its bounds, or has none."""
    return any(
        name not in bounds or not bounds[name][0] <= value <= bounds[name][1]
        for name, value in numbers_of(layer).items()
    )


def in_order(rows: Iterable[Measurement]) -> list[Measurement]:
    """Rows in an order that does not depend on when they were told."""

    def place(row: Measurement) -> tuple[str, float]:
        keys = [[*map(repr, layer.identity), layer.count] for layer in row.layers]
        return json.dumps(keys), row.energy_j

    return sorted(rows, key=place)


def distinct(networks: Sequence[Sequence[Layer]]) -> Networks:
    """The different layers of some networks, and how many of each every network has."""
    index: dict[LayerIdentity, int] = {}
    layers: list[Layer] = []
    numbers: list[int] = []
    for network in networks:
        for layer in network:
            number = index.setdefault(layer.identity, len(layers))
            if number == len(layers):
                layers.append(layer)
            elif layers[number].features.flops is None:  # it may be counted in one row only
                layers[number] = layer
            numbers.append(number)
    counts = np.zeros((len(networks), len(layers)))
    lengths = np.array([len(network) for network in networks], int)
    rows = np.repeat(np.arange(len(networks)), lengths)
    amounts = [layer.count * layer.part for network in networks for layer in network]
    np.add.at(counts, (rows, np.array(numbers, int)), amounts)
    return layers, counts


def count(networks: Sequence[Sequence[Layer]], layers: Sequence[Layer]) -> Array:
    """How many of each of these layers every network has; they are all there."""
    index = {layer.identity: i for i, layer in enumerate(layers)}
    counts = np.zeros((len(networks), len(layers)))
    for row, network in zip(counts, networks, strict=True):
        for layer in network:
            row[index[layer.identity]] += layer.count * layer.part
    return counts
