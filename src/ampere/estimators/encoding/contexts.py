"""Contexts: what networks are besides their layers, or besides their calls.

How deep they are: layers cost more or less in company than alone. And where layers are told in
calls, in which blocks these stand: what fusion and caches do to a block as a whole is the doing of
none of its calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ampere.core.layers import SIZE, Layer
from ampere.core.variants import MOST_LAYERS
from ampere.estimators.encoding.encoder import STEP, number_of
from ampere.estimators.processes.light import light
from ampere.estimators.processes.totals import LEVELS, Context

LEAST_CALLS = 8  # of a network: a layer, its updates, and a loss
# What company is counted in, and from where on: how many, of what, in which networks.
LAYERS, CALLS = (MOST_LAYERS, "layers", "variants"), (LEAST_CALLS, "calls", "the smallest ones")
IDLE = ("view", STEP.kind.operation)  # what moves nothing


def contexts_of(
    networks: Sequence[Sequence[Layer]], depth: float | Sequence[float] | None = None
) -> Context:
    """The contexts of networks; what is a part of one is as deep as that, which is told then."""
    blocks: dict[int, int] = {}
    shares: list[tuple[int, int, float]] = []
    numbers: list[tuple[int, ...]] = []
    for row, network in enumerate(networks):
        for block, share in _blocks(network):
            own = number_of(repr(block.identity))
            if own not in blocks:
                known = (block.kind.operation, block.kind.name)
                numbers.append((*(number_of(_apart(block, name)) for name in known), own))
            shares.append((row, blocks.setdefault(own, len(blocks)), share))
    table = np.zeros((len(networks), len(blocks)))
    for row, column, share in shares:
        table[row, column] += share
    depths = [depth_context(each) for each in networks] if depth is None else depth
    every = np.broadcast_to(np.array(depths, float), len(networks))
    return Context(every, light(table), np.array(numbers, int).reshape(-1, LEVELS))


def _blocks(network: Sequence[Layer]) -> list[tuple[Layer, float]]:
    """The layers whose calls a network has, and which part of its work each of them does.

    What they cost is not known before rows are fitted, and a share need not be exact: FLOPs, bytes
    and how many calls there are count alike. A call of which nobody says where it stands is a block
    by itself.
    """
    parts = [part for part in network if part.kind != STEP.kind]
    within = [part.within or (part if is_call(part) else None) for part in parts]
    if not any(within):
        return []
    many = np.array([part.count * part.part for part in parts])
    each = [part.features.numbers for part in parts]
    flops, *moved = (np.array([row[i] or 0.0 for row in each]) for i in range(3))
    work = [many * flops, many * (moved[0] + moved[1]), many]
    shares = np.mean([part / part.sum() for part in work if part.any()], axis=0)
    found: dict[int, tuple[Layer, float]] = {}
    for block, share in zip(within, shares, strict=True):
        if block is not None:
            _, before = found.get(id(block), (block, 0.0))
            found[id(block)] = block, before + float(share)
    return list(found.values())


def _apart(block: Layer, name: str) -> str:
    """The name of a layer's operation or kind; a call of that name is no such layer."""
    return f"call {name}" if is_call(block) else name


def depth_context(layers: Iterable[Layer]) -> float:
    """How much deeper than a variant a network is, in octaves.

    One that is told in calls: how many more it has than the least of networks.
    """
    every = tuple(layers)
    if any(map(is_call, every)):
        return math.log2(max(calls_in(every), LEAST_CALLS) / LEAST_CALLS)
    return math.log2(max(depth_of(every), MOST_LAYERS) / MOST_LAYERS)


def calls_in(layers: Iterable[Layer]) -> float:
    """How many calls do something in a network; a sequence is one, however long."""
    return math.fsum(
        layer.count * layer.part / _steps(layer)
        for layer in layers
        if layer.kind.operation not in IDLE
    )


def _steps(layer: Layer) -> float:
    steps = layer.kind.attributes.get("steps", 1)
    return max(float(steps), 1.0) if isinstance(steps, (int, float)) else 1.0


def depth_of(layers: Iterable[Layer]) -> int:
    """How many layers a network has; calls, as which it may be told, are none."""
    return sum(layer.count for layer in layers if not is_call(layer))


def is_call(layer: Layer) -> bool:
    """Whether it stands for calls, of whatever layers."""
    return SIZE in layer.kind.attributes
