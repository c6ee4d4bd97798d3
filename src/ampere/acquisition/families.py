"""Families: unseen members of a model's family, as the paper samples them (section 4.1).

A zoo family (`zoo:cnn5`) has a sampler of its own. Any other model, and a zoo model with arguments,
is its own family: its layers at random widths from 1 to the original, widths that meet kept equal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ampere.core.boundary.example_inputs import Input, as_inputs
from ampere.core.boundary.losses import load_loss, loss_name
from ampere.core.boundary.trust import refuse_code
from ampere.core.choices import resample
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer
from ampere.core.training import LOSSES, Loss, Training
from ampere.core.workloads import ModelSpec, Workload
from ampere.frameworks.models import layers_of, read, with_features
from ampere.frameworks.readers import Model
from ampere.records.journal import is_modest
from ampere.zoo.families import find_family

GIVE_UP = 1000  # draws without a new member
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Network:
    """A network that can be measured: what runs, and its layers."""

    name: str
    workload: Workload
    layers: tuple[Layer, ...]

    def __str__(self) -> str:
        return self.name


def read_network(model: Model, input: Input | None, training: Training) -> Network:
    """A model itself: by name it is built by its own code, a module again from its layers."""
    training = replace(training, loss=present_loss(training.loss))
    layers = read(model, input, training)
    if isinstance(model, str):
        spec = ModelSpec(model, input_text(input), training)
        return Network(model, Workload(model=spec), layers)
    return Network(type(model).__name__, Workload(layers), layers)


def present_loss(loss: Loss) -> str:
    """The name of a loss that is really there: better known now than after minutes of metering."""
    refuse_code(loss, "loss", f"--loss {loss} or Training(loss=...)")
    name = loss_name(loss)
    if name not in LOSSES:
        load_loss(name)
    return name


def input_text(input: Input | None) -> str | None:
    """An input as it stands in a `ModelSpec`."""
    return None if input is None else str(as_inputs(input))


def remembered(input: Input | None) -> Inputs | None:
    """An input as a profile keeps it; one that a file must not ask for is not kept."""
    inputs = None if input is None else as_inputs(input)
    return inputs if inputs is not None and is_modest(inputs) else None


def members(spec: ModelSpec, rng: random.Random) -> Iterator[Network]:
    """Distinct members, in random order, until there seem to be no others."""
    home, _, rest = spec.model.partition(":")
    family = find_family(rest) if home == "zoo" and "(" not in rest else None
    if family is None:
        yield from resampled(spec.model, layers_of(spec), rng)
        return
    for name in _distinct(lambda: family.describe(family.sample(rng))):
        member = replace(spec, model=name)
        yield Network(name, Workload(model=member), layers_of(member))


def resampled(name: str, layers: Sequence[Layer], rng: random.Random) -> Iterator[Network]:
    """A network at distinct random widths, built from its layers."""
    for drawn in _distinct(lambda: resample(layers, rng)):
        counted = tuple(with_features(layer) for layer in drawn)
        yield Network(f"{name} {widths_in_words(drawn)}", Workload(layers=counted), counted)


def widths_in_words(layers: Sequence[Layer]) -> str:
    """How wide layers are: `at widths 5-9-95`, for each what it gives, or takes if only that."""
    widths = (list(layer.widths.values()) for layer in layers)
    return f"at widths {'-'.join(str(own[-1]) for own in widths if own)}"


def _distinct(draw: Callable[[], T]) -> Iterator[T]:
    """What is drawn, equal draws left out, until nothing new seems to come."""
    seen: set[T] = set()
    misses = 0
    while misses < GIVE_UP:
        drawn = draw()
        misses = misses + 1 if drawn in seen else 0
        if not misses:
            seen.add(drawn)
            yield drawn
