"""Families: unseen members of a model's family, as the paper samples them (section 4.1).

A zoo family (`zoo:cnn5`) has a sampler of its own. Any other model, and a zoo model with arguments,
is its own family: its layers at random widths from 1 to the original, widths that meet kept equal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ampere import zoo
from ampere.devices.device import ModelSpec, Workload
from ampere.layers import Layer
from ampere.resizing import resample


@dataclass(frozen=True)
class Member:
    """One model of a family: what runs, and its layers."""

    name: str
    workload: Workload
    layers: tuple[Layer, ...]


def members(spec: ModelSpec, rng: random.Random) -> Iterator[Member]:
    """Distinct members, without end; equal draws are left out."""
    from ampere.frameworks.torch import read
    from ampere.frameworks.torch.counting import with_features

    def layers_of(model: str) -> tuple[Layer, ...]:
        return read(
            model,
            spec.input,
            batch_size=spec.batch_size,
            optimizer=spec.optimizer,
            loss=spec.loss,
        )

    seen: set[object] = set()
    home, _, rest = spec.model.partition(":")
    family = zoo.family(rest) if home == "zoo" and "(" not in rest else None
    original = layers_of(spec.model)
    misses = 0
    while misses < 1000:
        if family is not None:
            name = family.describe(family.sample(rng))
            key: object = name
        else:
            drawn = tuple(with_features(layer) for layer in resample(original, rng))
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
