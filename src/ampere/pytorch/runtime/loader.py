"""Load the model of torch that a text names: of the zoo, public, or the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ampere.core.boundary.code import Factory, in_words, own_factory
from ampere.core.boundary.model_names import TIMM, TRANSFORMERS, ZOO, ModelName, parse_name
from ampere.core.inputs import Inputs
from ampere.errors import ModelError
from ampere.pytorch.public.timm_models import find_timm_model
from ampere.pytorch.public.transformers_models import find_transformers_model
from ampere.pytorch.runtime.wrappers import unwrapped
from ampere.zoo.families import find_family

_PUBLIC = {TIMM: find_timm_model, TRANSFORMERS: find_transformers_model}


def build_model(spec: str) -> nn.Module:
    """Build the model that a text names, such as `zoo:cnn5(channels=[16, 32, 64, 64])`.

    Python files that `ampere prune` wrote import this one from `ampere`: it stays as it is.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found or built.
    """
    with _factory_of(parse_name(spec)) as factory:
        return _build(factory)


def load_model(
    spec: str, input: Inputs | None = None, *, hollow: bool = False
) -> tuple[nn.Module, Inputs]:
    """Build the model that a text names, and say what it is fed.

    Args:
        spec: `zoo:cnn5(channels=[16, 32, 64, 64])`, `timm:resnet50`, `hf:gpt2(sequence=128)`,
            `path/file.py:factory(width=32)` or `package.module:factory`; the factory is a
            function, an `nn.Module` class or a model.
        input: What the model is fed; by default the zoo's or the public model's input, or the
            factory's `input` attribute, which may be a text.
        hollow: Whether sizes are enough: a public model, which may be larger than this machine's
            memory, is then built without values.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found or built.
    """
    named = parse_name(spec)
    with _factory_of(named) as factory:
        fed = factory.fed(input)
        if hollow and named.source in _PUBLIC:
            factory = replace(factory, make=_without_values(factory.make))
        return _build(factory), fed


@contextmanager
def _factory_of(named: ModelName) -> Iterator[Factory]:
    """The factory that a text names; while it is open, it can import what lies beside it."""
    label = f"{named.source}:{named.name}"
    if named.source in _PUBLIC:
        recipe = _PUBLIC[named.source](named)
        yield Factory(label, recipe.make, {}, recipe.input)
    elif named.source == ZOO:
        family = find_family(named.name)
        yield Factory(label, family.build, named.arguments, family.input)
    else:
        with own_factory(named) as factory:
            yield factory


def _build(factory: Factory) -> nn.Module:
    model = factory.build(is_module)
    if not isinstance(model, nn.Module):
        raise ModelError(f"{factory.label} returned {in_words(model)}; it must return an nn.Module")
    return unwrapped(model)


def is_module(value: object) -> bool:
    """Whether something is a model of torch."""
    return isinstance(value, nn.Module)


def _without_values(make: Callable[[], Any]) -> Callable[[], Any]:
    """The same, with sizes only, unless it looks at values while it is built."""

    def hollow() -> Any:
        try:
            with torch.device("meta"):
                return make()
        except Exception:
            return make()

    return hollow
