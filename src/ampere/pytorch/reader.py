"""PyTorch: read a model's layers, plan and build variants, train them.

    model -> tracing -> sizing -> reading: layers -> standins: variants -> building -> training

Importing this package imports torch.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeAlias

import torch
from torch import nn

from ampere.core.choices import resize as resized
from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.core.layers import Layer, structure_of
from ampere.core.training import Training
from ampere.core.variants import Plan, plan
from ampere.core.workloads import ModelSpec
from ampere.errors import ModelError
from ampere.pytorch.graph import standins
from ampere.pytorch.graph.reader import Reading, read_layers, read_model
from ampere.pytorch.pruning.slimmer import Slimmer
from ampere.pytorch.pruning.weights import load_weights
from ampere.pytorch.runtime.builder import build
from ampere.pytorch.runtime.loader import in_words, load_model
from ampere.pytorch.runtime.losses import find_loss, loss_name
from ampere.pytorch.runtime.trainer import OPTIMIZERS, dtype_of

__all__ = [
    "as_inputs",
    "build",
    "find_loss",
    "load_model",
    "loss_name",
    "make_slimmer",
    "plan_variants",
    "read",
    "read_layers",
    "read_whole",
    "resize",
]

Part: TypeAlias = InputSpec | str | int | Sequence[int] | torch.Tensor
Input: TypeAlias = (
    Inputs
    | Part
    | Sequence[Part]
    | Mapping[str, Part]
    | tuple[Part | Sequence[Part], Mapping[str, Part]]
)


def read(
    model: nn.Module | str,
    input: Input | None = None,
    training: Training = Training(),
) -> tuple[Layer, ...]:
    """The layers of a model, given as a module or by name (`zoo:lenet5`, `file.py:factory`)."""
    return read_whole(model, input, training).layers


def layers_of(spec: ModelSpec) -> tuple[Layer, ...]:
    """The layers of a model that is given by name; the zoo's, which cannot change, stay known."""
    return _zoo_layers(spec) if spec.model.startswith("zoo:") else _read_spec(spec)


def _read_spec(spec: ModelSpec) -> tuple[Layer, ...]:
    return read(spec.model, spec.input, spec.training)


_zoo_layers = lru_cache(maxsize=2048)(_read_spec)


def read_whole(
    model: nn.Module | str,
    input: Input | None = None,
    training: Training = Training(),
) -> Reading:
    """The layers of a model, and which of its parameters belong to none of them."""
    return read_model(*_prepare(model, input, training))


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
    model: nn.Module | str, input: Input | None, training: Training
) -> tuple[nn.Module, Inputs, Training]:
    """The model itself, what it is fed and how it is trained, all of it checked."""
    if training.optimizer not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        raise ModelError(f"unknown optimizer {training.optimizer!r}: use one of {known}")
    training = replace(training, loss=loss_name(training.loss))
    inputs = None if input is None else as_inputs(input)
    if isinstance(model, str):
        model, inputs = load_model(model, inputs)
    if not isinstance(model, nn.Module):
        raise ModelError(f"a model is an nn.Module or its name, not {type(model).__name__}")
    if any(True for _ in model.parameters()) and not any(
        p.requires_grad for p in model.parameters()
    ):
        raise ModelError(f"{type(model).__name__} is frozen: there is nothing to train")
    if inputs is None:
        raise ModelError("the model's input is not known: pass its shape, such as (3, 32, 32)")
    if training.dtype not in (None, dtype_of(model)):
        model = copy.deepcopy(model).to(getattr(torch, str(training.dtype)))
    return model, inputs, training


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


def as_inputs(input: Input) -> Inputs:
    """What a sample is, from a text, from shapes without the batch or from an example batch.

    Args:
        input: `Inputs`, a text (`"3x32x32, mask=16:bool"`), one input, several in a sequence, a
            dict of those that go by keyword, or a pair of a sequence and a dict. An input is a
            shape, a text, an `InputSpec` or an example tensor with the batch first, of which floats
            count as float32 and integers as int64 ids below the largest of them.
    """
    if isinstance(input, Inputs):
        return input
    if isinstance(input, str):
        return parse_inputs(input)
    positional: Any = input
    named: Mapping[str, Any] = {}
    if isinstance(input, Mapping):
        positional, named = (), input
    elif isinstance(input, tuple) and len(input) == 2 and isinstance(input[1], Mapping):
        positional, named = input
    if _is_shape(positional) or isinstance(positional, str) or not isinstance(positional, Sequence):
        positional = (positional,)
    examples = [x for x in (*positional, *named.values()) if isinstance(x, torch.Tensor)]
    batches = sorted({len(x) for x in examples if x.dim()})
    if len(batches) > 1:
        raise ModelError(
            f"the example inputs hold {' and '.join(map(str, batches))} samples:"
            " each needs the batch first, and the same"
        )
    return Inputs(
        tuple(_as_spec(x) for x in positional),
        tuple((name, _as_spec(x)) for name, x in named.items()),
    )


def _is_shape(thing: Any) -> bool:
    return isinstance(thing, Sequence) and bool(thing) and all(_is_size(size) for size in thing)


def _is_size(thing: Any) -> bool:
    return isinstance(thing, Integral) and not isinstance(thing, bool)


def _as_spec(part: Any) -> InputSpec:
    if isinstance(part, InputSpec):
        return part
    if isinstance(part, str):
        return InputSpec.parse(part)
    if isinstance(part, torch.Tensor):
        return _spec_of_example(part)
    if _is_size(part) or _is_shape(part):
        return InputSpec((int(part),) if _is_size(part) else tuple(int(size) for size in part))
    raise ModelError(
        f"an input is a shape, a text or an example tensor, not {in_words(part)}:"
        " pass e.g. (3, 32, 32)"
    )


def _spec_of_example(example: torch.Tensor) -> InputSpec:
    shape, dtype = tuple(example.shape), str(example.dtype).rpartition(".")[2]
    if len(shape) < 2 or not example.numel():
        raise ModelError(
            f"an example input of shape {shape} holds no sample with a size: put the batch first,"
            " and at least one size behind it"
        )
    if example.is_floating_point():  # whatever its precision: mixed precision is the device's
        return InputSpec(shape[1:])
    if example.dtype is torch.bool:
        return InputSpec(shape[1:], "bool")
    if example.is_complex():
        raise ModelError(f"an example input is {dtype}: use real numbers, ids or booleans")
    if example.is_meta:
        return InputSpec(shape[1:], "int64")
    if int(example.min()) < 0:
        raise ModelError("an example input has ids below 0: pass ids from 0 on")
    return InputSpec(shape[1:], "int64", int(example.max()) + 1)


def plan_variants(layers: Sequence[Layer]) -> Plan:
    """The variants that isolate each kind of these layers."""
    # A kind's name tells its structure, but not which widths that allows.
    steps = [sorted(structure_of(layer.kind).multiples.items()) for layer in layers]
    return _plan(tuple(layers), tuple(map(tuple, steps)))


@lru_cache(maxsize=64)
def _plan(layers: tuple[Layer, ...], steps: tuple[tuple[tuple[str, int], ...], ...]) -> Plan:
    return plan(layers, standins)


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
