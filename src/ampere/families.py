"""Families: unseen members of a model's family, as the paper samples them (section 4.1).

A zoo family has a sampler of its own. Any other model is its own family: its layers at random
widths from 1 to the original, widths that meet kept equal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ampere import zoo
from ampere.devices.device import ModelSpec, Workload
from ampere.errors import ModelError
from ampere.layers import Layer, Size, Widths, shape_at


@dataclass(frozen=True)
class Member:
    """One model of a family: what runs, and its layers."""

    name: str
    workload: Workload
    layers: tuple[Layer, ...]


def members(spec: ModelSpec, rng: random.Random) -> Iterator[Member]:
    """Distinct members, without end; equal draws are left out."""
    from ampere.frameworks.torch import read

    def layers_of(model: str) -> tuple[Layer, ...]:
        return read(model, spec.input, batch_size=spec.batch_size, optimizer=spec.optimizer)

    seen: set[object] = set()
    home, _, rest = spec.model.partition(":")
    family = zoo.family(rest.partition("(")[0]) if home == "zoo" else None
    original = layers_of(spec.model)
    misses = 0
    while misses < 1000:
        if family is not None:
            name = family.describe(family.sample(rng))
            key: object = name
        else:
            drawn = resample(original, rng)
            name = f"{spec.model} {[dict(layer.widths) for layer in drawn]}"
            key = tuple(layer.widths for layer in drawn)
        if key in seen:
            misses += 1
            continue
        seen.add(key)
        misses = 0
        if family is not None:
            yield Member(name, Workload(model=replace(spec, model=name)), layers_of(name))
        else:
            yield Member(name, Workload(layers=drawn), drawn)


def resample(layers: Sequence[Layer], rng: random.Random) -> tuple[Layer, ...]:
    """The same chain at random widths from 1 to the original; what enters fits what left before."""
    from ampere.frameworks.torch.counting import with_features

    out: list[Layer] = []
    arriving: tuple[int, ...] | None = None
    for layer in layers:
        structure = layer.kind.structure
        if structure is None:
            raise ModelError(f"{layer.kind.name} has no structure to resize")
        widths = {}
        for symbol, size in zip(structure.input, arriving or (), strict=False):
            if isinstance(symbol, Size):
                widths[symbol.width] = size * symbol.over // symbol.times
        for name, original in layer.widths.items():
            step = structure.multiples[name]
            if name not in widths:
                widths[name] = step * rng.randint(1, max(1, original // step))
        chosen = Widths(widths)
        arriving = shape_at(structure.output, chosen)
        out.append(replace(layer, widths=chosen))
    return tuple(with_features(layer) for layer in out)
