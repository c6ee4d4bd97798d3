"""Layers as numbers: what the additive method's processes take (see sum_process.py).

Coordinates are the logarithms of widths and of a kind's attributes (map size, kernel, batch), so
that kinds of one operation can learn from each other; attributes that are words, and the role, are
0 or 1. Features are what the mean is linear in: 1, FLOPs, bytes of activations and of parameters,
and FLOPs as a device does them that rounds widths up to a tile. An operation whose FLOPs are not
known throughout has the sum and the product of the widths instead.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.core.layers import Features, Layer, LayerIdentity, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.variants import MOST_LAYERS
from ampere.estimators.processes.linear_mean import Layers
from ampere.records.measurement import Measurement

# Every network has it once: what a step costs whatever its layers are.
STEP = Layer("step", LayerKind("step", Role.HIDDEN, "step"), Widths(), Features(0.0, 0.0, 0.0))

# A step; a layer; FLOPs, bytes of activations and of parameters, FLOPs on tiles; or, where FLOPs
# are not known, the sum and the product of the widths.
FEATURES = 8


def depth_context(layers: Iterable[Layer]) -> float:
    """How much deeper than a variant a network is, in octaves."""
    return math.log2(max(sum(layer.count for layer in layers), MOST_LAYERS) / MOST_LAYERS)


@dataclass(frozen=True)
class Encoder:
    """Numbers for the operations, kinds and coordinates of the networks that were measured."""

    operations: Mapping[str, int]
    kinds: Mapping[str, int]
    operation_of: Mapping[str, str]  # of each kind, which is known by its name
    counted: frozenset[str]  # operations whose FLOPs are known
    coordinates: tuple[str, ...]
    tile: int = 0  # 0: no stairs

    @classmethod
    def of(cls, layers: Sequence[Layer], tile: int = 0) -> Encoder:
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
            tile,
        )

    def encode(self, layers: Sequence[Layer]) -> Layers:
        """Layers as arrays; those of the same identity get the same id."""
        n = len(layers)
        x = np.zeros((n, len(self.coordinates)))
        index = {name: i for i, name in enumerate(self.coordinates)}
        for row, layer in zip(x, layers, strict=True):
            for name, value in coordinates(layer).items():
                if name in index:
                    row[index[name]] = value
        return Layers(
            np.array([self._features(layer) for layer in layers]).reshape(n, FEATURES),
            x,
            np.array([self.operations.get(self.operation(layer), -1) for layer in layers], int),
            np.array([self.kinds.get(layer.kind.name, -1) for layer in layers], int),
            np.array([_number(layer.identity) for layer in layers], int),
        )

    def knows(self, layer: Layer) -> bool:
        """Whether layers of this kind were measured."""
        return layer.kind.name in self.kinds

    def covers(self, layer: Layer) -> bool:
        """Whether anything can be said of a layer: it has the features that the mean takes."""
        operation = self.operation(layer)
        if operation in self.operations and operation not in self.counted:
            return True
        return layer.features.flops is not None and bool(self.counted - {STEP.kind.operation})

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
        operation = self.operation(layer)
        if operation in self.operations and operation not in self.counted:
            columns[:, 6] = np.sum([np.zeros(len(counted)), *widths], axis=0)
            columns[:, 7] = np.prod([np.ones(len(counted)), *widths], axis=0)
            return columns
        columns[:, 2:5] = counted
        if self.tile:
            rounded = [-(-sizes // self.tile) * self.tile / sizes for sizes in widths]
            columns[:, 5] = counted[:, 0] * np.prod([np.ones(len(counted)), *rounded], axis=0)
        return columns

    def _features(self, layer: Layer) -> Array:
        counted = [[value or 0.0 for value in layer.features.numbers]]
        widths = [np.array([width]) for width in layer.widths.values()]
        return np.asarray(self.columns(layer, np.array(counted), widths)[0])


def _number(identity: LayerIdentity) -> int:
    """A number that is the same for the same layer, in every process."""
    return (
        int.from_bytes(hashlib.blake2b(repr(identity).encode(), digest_size=8).digest(), "big") >> 1
    )


def coordinates(layer: Layer) -> dict[str, float]:
    """Where a layer stands among those of its operation."""
    places = {name: math.log2(width) for name, width in layer.widths.items()}
    for name, value in layer.kind.attributes.items():
        if isinstance(value, (int, float)) and value >= 0:
            places[f"@{name}"] = math.log2(1 + value)
        else:
            places[f"@{name}={value}"] = 1.0
    places[f"@{layer.kind.role.value}"] = 1.0
    return places


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
            row[index[layer.identity]] += layer.count
    return counts
