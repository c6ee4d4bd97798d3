"""Families: unseen members of a model's family, as the paper samples them (section 4.1).

A zoo family (`zoo:cnn5`) has a sampler of its own. Any other model, and a zoo model with arguments,
is its own family: its layers at random widths from 1 to the original, widths that meet kept equal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ampere import zoo
from ampere.devices.device import ModelSpec, Workload
from ampere.layers import Layer
from ampere.resizing import resample

GIVE_UP = 1000  # draws without a new member


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
        return read(
            model,
            spec.input,
            batch_size=spec.batch_size,
            optimizer=spec.optimizer,
            loss=spec.loss,
        )

    home, _, rest = spec.model.partition(":")
    family = zoo.family(rest) if home == "zoo" and "(" not in rest else None
    if family is None:
        yield from resampled(spec.model, layers_of(spec.model), rng)
        return
    seen: set[str] = set()
    misses = 0
    while misses < GIVE_UP:
        name = family.describe(family.sample(rng))
        misses = misses + 1 if name in seen else 0
        if name not in seen:
            seen.add(name)
            yield Member(name, Workload(model=replace(spec, model=name)), layers_of(name))


def resampled(name: str, layers: Sequence[Layer], rng: random.Random) -> Iterator[Member]:
    """A network at distinct random widths, built from its layers."""
    from ampere.frameworks.torch.counting import with_features

    seen: set[object] = set()
    misses = 0
    while misses < GIVE_UP:
        drawn = tuple(with_features(layer) for layer in resample(layers, rng))
        key = tuple(layer.widths for layer in drawn)
        misses = misses + 1 if key in seen else 0
        if key not in seen:
            seen.add(key)
            title = f"{name} {[dict(layer.widths) for layer in drawn]}"
            yield Member(title, Workload(layers=drawn), drawn)
