"""Borders of layers: the values that enter a group of calls, and those that leave it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from ampere.core.graph.calls import C, Graph, Value, constants
from ampere.core.layers import Layer, Role


@dataclass(frozen=True)
class Borders:
    """The values that enter a group of calls, and those that leave it."""

    entering: tuple[Value, ...]
    leaving: tuple[Value, ...]
    result: Any  # a tree of values: what the model returns, where this is its last layer


def role_of(i: int, borders: Sequence[Borders], tainted: Set[int]) -> Role:
    """FIRST reads only what the model is given, LAST returns what the model returns."""
    if i == len(borders) - 1:
        return Role.LAST
    reads = [value for value in borders[i].entering if value.call in tainted]
    return Role.FIRST if all(value.call == 0 for value in reads) else Role.HIDDEN


def borders_of(groups: Sequence[Sequence[C]], graph: Graph[C]) -> list[Borders]:
    """What enters and leaves each group; the last one hands out what the model returns."""
    home = {call.index: i for i, group in enumerate(groups) for call in group
            if not call.is_constant}  # fmt: skip
    entering: list[dict[Value, None]] = [{} for _ in groups]
    leaving: list[dict[Value, None]] = [{} for _ in groups]
    constant = constants(graph)
    reads = [(i, value) for i, group in enumerate(groups) for c in group for value in c.inputs]
    reads += [(len(groups) - 1, value) for value in graph.outputs]
    for i, value in reads:
        if value.call in constant or home.get(value.call) == i:
            continue
        entering[i].setdefault(value)
        if value.call:
            leaving[home[value.call]].setdefault(value)
    borders = []
    for i, (enter, leave) in enumerate(zip(entering, leaving, strict=True)):
        out: Any = tuple(leave)
        result = out[0] if len(out) == 1 else out
        if i == len(groups) - 1:
            out, result = graph.outputs, graph.result
        borders.append(Borders(tuple(enter), out, result))
    return borders


def reads_of(borders: Borders, before: Sequence[Borders]) -> tuple[tuple[int, int], ...]:
    """Where each input of a layer comes from: the layer and the number of its output."""
    where = {value: (k, n) for k, b in enumerate(before) for n, value in enumerate(b.leaving)}
    return tuple(
        (-1, value.path[0]) if value.call == 0 else where[value] for value in borders.entering
    )


def without_plain_reads(layers: list[Layer]) -> tuple[Layer, ...]:
    """In a chain every layer reads the one before: nothing needs to be said."""
    chain = all(layer.reads == ((i - 1, 0),) for i, layer in enumerate(layers))
    return tuple(replace(layer, reads=()) if chain else layer for layer in layers)
