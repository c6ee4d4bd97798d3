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
from ampere.errors import ModelError
from ampere.layers import Layer, Size, Structure, Widths, shape_at, steps_to_meet


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
    family = zoo.family(rest) if home == "zoo" and "(" not in rest else None
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
    for layer, steps in zip(layers, _steps(layers), strict=True):
        structure = _structure(layer)
        widths = {}
        for symbol, size in zip(structure.input, arriving or (), strict=False):
            if isinstance(symbol, Size):
                widths[symbol.width] = size * symbol.over // symbol.times
        for name, original in layer.widths.items():
            step = steps[name]
            if name not in widths:
                widths[name] = step * rng.randint(1, max(1, original // step))
        chosen = Widths(widths)
        arriving = shape_at(structure.output, chosen)
        out.append(replace(layer, widths=chosen))
    return tuple(with_features(layer) for layer in out)


def _steps(layers: Sequence[Layer]) -> list[dict[str, int]]:
    """What each layer's widths must be multiples of, so that all layers behind it fit too."""
    found: list[dict[str, int]] = []
    for layer, behind in zip(reversed(layers), [None, *reversed(layers)], strict=False):
        structure = _structure(layer)
        steps = dict(structure.multiples)
        if behind is not None:
            steps = steps_to_meet(steps, structure.output, _structure(behind).input, found[-1])
        found.append(steps)
    return found[::-1]


def _structure(layer: Layer) -> Structure:
    if layer.kind.structure is None:
        raise ModelError(f"{layer.kind.name} has no structure to resize")
    return layer.kind.structure
