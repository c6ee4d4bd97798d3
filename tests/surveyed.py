"""Networks drawn at random, and a device on which every call has a known price.

To draw and to read them takes longer than what is tested with them, so they are kept in a file:
`python tests/surveyed.py` makes it anew.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from ampere.acquisition.families import Network
from ampere.core.layers import Layer, Work
from ampere.core.training import Training
from ampere.core.workloads import Workload
from ampere.estimators.base import Cost
from ampere.records.measurement import Measurement

FILE = Path(__file__).parent / "drawn.json.gz"
MANY = 42
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
def drawn() -> tuple[tuple[Layer, ...], ...]:
    """Networks of all genres, small and deep, as rows of a journal tell them."""
    networks = json.loads(gzip.decompress(FILE.read_bytes()))
    return tuple(tuple(map(Layer.from_json, network)) for network in networks)


def kept_candidates(
    seed: str, training: Training, like: Sequence[Sequence[Layer]] = ()
) -> Iterator[Network]:
    """The kept ones, in an order that depends on the seed: stands in for those of a survey."""
    order = random.Random(seed).sample(drawn(), len(drawn()))
    for number, layers in enumerate(itertools.cycle(order)):
        yield Network(f"kept {number + 1}", Workload(layers), layers)


def main() -> None:
    """Draw them anew."""
    from ampere.pytorch.generator.network import GENRES, drawn_layers

    rng = random.Random("tests")
    networks = [
        drawn_layers(rng, GENRES[i % len(GENRES)], 10 ** rng.uniform(6.5, 8.7), Training())
        for i in range(MANY)
    ]
    rows = [[layer.to_json() for layer in layers] for layers in networks]
    FILE.write_bytes(gzip.compress(json.dumps(rows, sort_keys=True).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
