"""The verbs on models of PyTorch: read one, resize it, make it narrower.

model -> graph.trace -> graph.sizes -> graph.model_reading: layers
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from ampere.core.boundary.example_inputs import Input, as_inputs
from ampere.core.boundary.losses import loss_name
from ampere.core.choices import resize as resized
from ampere.core.inputs import Inputs, InputSpec
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.pytorch.graph.model_reading import ModelReading, read_layers, read_model
from ampere.pytorch.pruning.slimmer import Slimmer
from ampere.pytorch.pruning.weights import load_weights
from ampere.pytorch.runtime.builder import build
from ampere.pytorch.runtime.loader import load_model
from ampere.pytorch.runtime.trainer import OPTIMIZERS, dtype_of
from ampere.pytorch.runtime.wrappers import unwrapped

MOST_NUMBERS = 10**15  # in a batch: a million gigabytes
MOST_BYTES = 4 * 2**30  # of weights that are made up only to read a model

__all__ = [
    "check_layers",
    "linear_layer",
    "make_slimmer",
    "read",
    "read_whole",
    "resize",
]


def read(
    model: nn.Module | str,
    input: Input | None = None,
    training: Training = Training(),
) -> tuple[Layer, ...]:
    """The layers of a model, given as a module or by name (`timm:resnet50`, `file.py:factory`)."""
    return read_whole(model, input, training).layers


def read_whole(
    model: nn.Module | str,
    input: Input | None = None,
    training: Training = Training(),
) -> ModelReading:
    """The layers of a model, and which of its parameters belong to none of them."""
    prepared = _prepare(model, input, training, hollow=True)
    try:
        return read_model(*prepared)
    except ModelError as error:
        if not isinstance(model, str) or not _wants_values(prepared[0], error):
            raise
    return read_model(*_prepare(model, input, training))


def _wants_values(hollow: nn.Module, error: ModelError) -> bool:
    """Whether a model that was built without values failed for that, and fits into memory."""
    parameters = list(hollow.parameters())
    built_so = bool(parameters) and all(parameter.is_meta for parameter in parameters)
    size = sum(parameter.nbytes for parameter in parameters)
    return built_so and "meta" in str(error) and size <= MOST_BYTES


def make_slimmer(
    model: nn.Module | str,
    input: Input | None = None,
    training: Training = Training(),
    *,
    weights: str | os.PathLike[str] | None = None,
    importance: str = "l2",
    seed: int = 0,
) -> Slimmer:
    """A model, with weights of a file if one is given, ready to be made narrower."""
    built, inputs, training = _prepare(model, input, training)
    if weights is not None:
        built = built if isinstance(model, str) else copy.deepcopy(built)
        load_weights(built, weights)
    return Slimmer(built, inputs, training, importance, seed)


def _prepare(
    model: nn.Module | str, input: Input | None, training: Training, hollow: bool = False
) -> tuple[nn.Module, Inputs, Training]:
    """The model itself, what it is fed and how it is trained, all of it checked."""
    if training.optimizer not in OPTIMIZERS:
        names = ", ".join(OPTIMIZERS)
        raise ModelError(f"unknown optimizer {training.optimizer!r}: use one of {names}")
    training = replace(training, loss=loss_name(training.loss))
    inputs = None if input is None else as_inputs(input)
    if isinstance(model, str):
        model, inputs = load_model(model, inputs, hollow=hollow)
    if not isinstance(model, nn.Module):
        raise ModelError(f"a model is an nn.Module or its name, not {type(model).__name__}")
    model = unwrapped(model)
    if any(True for _ in model.parameters()) and not any(
        p.requires_grad for p in model.parameters()
    ):
        raise ModelError(f"{type(model).__name__} is frozen: there is nothing to train")
    if inputs is None:
        raise ModelError("the model's input is not known: pass its shape, such as (3, 32, 32)")
    _refuse_too_large(inputs, training.batch_size)
    if training.dtype not in (None, dtype_of(model)):
        model = copy.deepcopy(model).to(getattr(torch, str(training.dtype)))
    return model, inputs, training


def _refuse_too_large(inputs: Inputs, batch_size: int) -> None:
    """Beyond some size, sizes cannot even be computed with."""
    if batch_size * sum(math.prod(spec.shape) for spec in inputs) > MOST_NUMBERS:
        raise ModelError(
            f"a batch of {batch_size} samples of {inputs} is more than any device holds: use a"
            " smaller batch, or smaller inputs"
        )


def resize(
    model: nn.Module | str,
    widths: Mapping[str, int],
    input: Input | None = None,
    training: Training = Training(),
) -> nn.Module:
    """The model rebuilt from its layers with some widths changed, named like `conv1.out`.

    Widths that are tied follow. The weights are new, inputs go by position, and where the model
    itself writes the batch into a shape, it takes batches of this size only.
    """
    return build(resized(read(model, input, training), widths))


def check_layers(batch_size: int = 10) -> tuple[tuple[Layer, Layer], Layer, Layer]:
    """The layers of the additivity check: a first and a last one, and two kinds to put between."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    inputs = Inputs((InputSpec((3, 32, 32)),))
    first, stacked, other, last = read_layers(model, inputs, Training(batch_size))
    return (first, last), stacked, other


def linear_layer(channels: int, side: int, batch_size: int = 10) -> Layer:
    """A linear layer with 10 outputs on square maps, as a last one: it varies over channels."""
    model = nn.Sequential(
        nn.Conv2d(1, channels, 1), nn.Flatten(), nn.Linear(channels * side**2, 10)
    )
    *_, last = read_layers(model, Inputs((InputSpec((1, side, side)),)), Training(batch_size))
    return last
