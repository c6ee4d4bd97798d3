"""Sums of calls: those of nearly one size told as of one, updates and loss, all of a layer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from torch import Tensor

from ampere.core.layers import Features, LayerIdentity, Work
from ampere.core.types import Json

STEPS_AN_OCTAVE = 2  # that sizes of light calls are rounded to
SMALL = 16384.0  # bytes; below, a call costs what any call costs
STATES = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adam": 2, "adamw": 2}  # numbers a parameter has
NOTHING = Work("view", features=Features(0.0, 0.0, 0.0))


def rounded(work: Work) -> Work:
    """So many calls of the next of a few sizes: as many bytes, and nearly as many calls."""
    moved = work.features.activation_bytes or 0.0
    if moved <= SMALL:
        return replace(work, features=replace(work.features, activation_bytes=SMALL))
    size = float(round(2.0 ** (round(math.log2(moved) * STEPS_AN_OCTAVE) / STEPS_AN_OCTAVE)))
    features = replace(work.features, activation_bytes=size)
    return replace(work, features=features, count=work.count * moved / size)


def bytes_of(tensors: Iterable[Tensor]) -> float:
    """What tensors hold."""
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))


def work_of_update(parameters: Iterable[Tensor], optimizer: str) -> list[Work]:
    """What an optimiser does with parameters, one after the other."""
    attributes = {"by": optimizer, "states": STATES.get(optimizer, max(STATES.values()))}
    return [
        rounded(Work("update", attributes=attributes, features=Features(0.0, bytes_of([p]), 0.0)))
        for p in parameters
    ]


def work_of_loss(scores: Iterable[Tensor]) -> list[Work]:
    """What the loss of each of these does, whichever it is."""
    return [rounded(Work("loss", features=Features(0.0, bytes_of([t]), 0.0))) for t in scores]


def forward_again(work: Work) -> Work:
    """The forward pass alone of calls: what a checkpointed layer does once more."""
    flops, moved, held = (value or 0.0 for value in work.features.numbers)
    passes = work.attributes.get("passes")
    if isinstance(passes, int):
        features = Features(flops / passes, moved / (2 if passes > 1 else 1), held)
        return replace(work, attributes={**work.attributes, "passes": 1}, features=features)
    if work.operation == NOTHING.operation or work.attributes.get("forward"):
        return work
    features = Features(flops, moved / 2, held)
    return rounded(replace(work, attributes={**work.attributes, "forward": 1}, features=features))


def summed(work: Iterable[Work], flops: float, precision: Mapping[str, Json]) -> tuple[Work, ...]:
    """Equal calls together, FLOPs such that they add up to what was counted of all."""
    listed = list(work)
    told = sum((each.features.flops or 0.0) * each.count for each in listed)
    scale = flops / told if told else 1.0
    together: dict[LayerIdentity, Work] = {}
    counts: defaultdict[LayerIdentity, float] = defaultdict(float)
    for each in listed:
        features = replace(each.features, flops=float(round((each.features.flops or 0.0) * scale)))
        attributes = {**each.attributes, **precision}
        one = replace(each, features=features, attributes=attributes, count=1.0)
        identity = one.call().identity
        together.setdefault(identity, one)
        counts[identity] += each.count
    return tuple(replace(one, count=counts[key]) for key, one in together.items())
