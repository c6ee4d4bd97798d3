"""Places: where a layer stands among those of its operation, told by its kind and its widths.

What a kind says is the same for all of its layers, and what widths say comes from a table of them:
networks have thousands of layers of a few kinds.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.core.layers import SIZE, Layer, LayerKind

TILES = (8, 16, 32, 64)  # widths are done so many at a time
VECTOR = 3  # octaves of a multiple that is loaded as a vector: 8
STAIRS = len(TILES) + 1
BYTES = "#bytes"  # the coordinate that follows no single width
FEW_VALUES = 16  # of an attribute that coefficients may vary with
# Operations that go through a sequence step by step, and what its length may be called.
RECURRENT, LENGTHS = frozenset({"lstm", "gru", "rnn"}), ("length", "sequence", "steps")

KindKey = tuple[object, ...]


def kind_key(layer: Layer) -> KindKey:
    """What layers of one kind have in common, attributes and all."""
    name, _, attributes = layer.identity
    return name, attributes, layer.kind.role, layer.kind.operation


def one_of_each(layers: Iterable[Layer]) -> tuple[list[Layer], Ints]:
    """One layer of each kind, and the number of the kind of every layer."""
    numbers: dict[KindKey, int] = {}
    firsts: list[Layer] = []
    which = []
    for layer in layers:
        key = kind_key(layer)
        number = numbers.setdefault(key, len(firsts))
        if number == len(firsts):
            firsts.append(layer)
        which.append(number)
    return firsts, np.array(which, int)


def places(kind: LayerKind) -> dict[str, float]:
    """Coordinates that are the same for all layers of a kind: attributes, and its role."""
    found = {}
    for name, value in kind.attributes.items():
        if name == SIZE:
            continue
        if isinstance(value, (int, float)) and value >= 0:
            found[f"@{name}"] = math.log2(1 + value)
        else:
            found[f"@{name}={value}"] = 1.0
    found[f"@{kind.role.value}"] = 1.0
    return found


def log_bytes(worked_on: float | Array) -> Array:
    """The coordinate of the bytes that layers work on."""
    return np.asarray(np.log2(1 + np.asarray(worked_on)))


def traits(kind: LayerKind) -> Iterator[tuple[str, str]]:
    """Attributes of a kind, and its role, each with its value as a text."""
    for name, value in kind.attributes.items():
        if name != SIZE:
            yield name, repr(value)
    yield "@role", kind.role.value


def varied_traits(kinds: Iterable[LayerKind]) -> tuple[tuple[str, str], ...]:
    """Those that some kinds have and others have not; of few values each."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for kind in kinds:
        for name, value in traits(kind):
            values[name].add(value)
    few = {name: found for name, found in values.items() if 1 < len(found) <= FEW_VALUES}
    return tuple((name, value) for name in sorted(few) for value in sorted(few[name]))


def starts(kind: LayerKind) -> float:
    """How many times, one after the other, a device is told to do something.

    A recurrent layer waits for each step before it begins the next one, so what a layer costs
    whatever it does, it costs that often. Calls are told step by step already.
    """
    words = set(re.split(r"[+×]", kind.operation))
    if SIZE in kind.attributes or not RECURRENT & words:
        return 1.0
    lengths = (kind.attributes.get(name) for name in LENGTHS)
    return max([1.0, *(float(each) for each in lengths if isinstance(each, (int, float)))])


def sizes_of(layers: Sequence[Layer]) -> Ints:
    """Widths of layers in rows, in any order; 0 where a layer has fewer than others."""
    sizes = np.zeros((len(layers), max((len(layer.widths) for layer in layers), default=0)), int)
    for row, layer in zip(sizes, layers, strict=True):
        row[: len(layer.widths)] = list(layer.widths.values())
    return sizes


def stairs(sizes: Ints) -> Array:
    """What widths (n, w) lack, in octaves: to the next tile of each size, and to a vector."""
    columns = np.zeros((len(sizes), STAIRS))
    for column in sizes.T:
        there = column > 0
        size = np.where(there, column, 1)
        for i, tile in enumerate(TILES):
            columns[:, i] += np.where(there, np.log2(-(-size // tile) * tile / size), 0.0)
        columns[:, -1] += np.where(there, 1 - np.log2(np.gcd(size, 2**VECTOR)) / VECTOR, 0.0)
    return columns


def padding(sizes: Ints, tile: int) -> Array:
    """By how much more is done where widths (n, w) are rounded up to a tile."""
    more = np.ones(len(sizes))
    for column in sizes.T:
        size = np.maximum(column, 1)
        more *= np.where(column > 0, -(-size // tile) * tile / size, 1.0)
    return more
