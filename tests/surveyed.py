"""Networks drawn at random, and a device on which every call has a known price."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

from ampere.core.layers import Layer, Work
from ampere.core.training import Training
from ampere.estimators.base import Cost
from ampere.records.measurement import Measurement

LAUNCH_J, PEAK, BAND = 2e-5, 2e10, 4e9  # a call; FLOPs and bytes for each joule
DEARER = {"normalisation": 2.0, "convolution": 0.6, "update": 1.5, "softmax": 3.0}


def price(work: Work) -> float:
    """Joules of calls: they are not what FLOPs or bytes alone would say."""
    flops, moved, held = (value or 0.0 for value in work.features.numbers)
    dearer = DEARER.get(work.operation, 1.0)
    return work.count * dearer * (LAUNCH_J + flops / PEAK + (moved + held) / BAND)


def cost(layer: Layer) -> Cost:
    """What a layer costs: its calls."""
    energy_j = layer.count * sum(map(price, layer.work))
    return Cost(energy_j, 0.0, energy_j / 4, 0.0)


def joules(layers: Sequence[Layer]) -> float:
    """What a network costs."""
    return sum(cost(layer).energy_j for layer in layers)


def surveyed(layers: Sequence[Layer], factor: float = 1.0) -> Measurement:
    """A row of a survey."""
    energy_j = joules(layers) * factor
    return Measurement(tuple(layers), energy_j, energy_j / 4, spread=0.01, repeats=5, by_calls=True)


@lru_cache(maxsize=1)
def drawn(n: int = 36) -> tuple[tuple[Layer, ...], ...]:
    """Networks of all genres, small enough to be read at once."""
    from ampere.pytorch.generator.network import GENRES, drawn_layers

    rng = random.Random("tests")
    return tuple(
        drawn_layers(rng, GENRES[i % len(GENRES)], 10 ** rng.uniform(6.5, 9), Training())
        for i in range(n)
    )
