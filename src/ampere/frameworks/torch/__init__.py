"""PyTorch: read a model's layers, plan and build variants, train them.

    model -> tracing -> sizing -> reading: layers -> standins: variants -> building -> training

Importing this package imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ampere.errors import ModelError
from ampere.frameworks.torch import standins
from ampere.frameworks.torch.building import build
from ampere.frameworks.torch.loading import load_model
from ampere.frameworks.torch.reading import read_layers
from ampere.frameworks.torch.training import OPTIMIZERS
from ampere.inputs import InputSpec, parse_input
from ampere.layers import Layer
from ampere.variants import Plan, plan

__all__ = ["as_input", "build", "load_model", "plan_variants", "read", "read_layers"]


def read(
    model: nn.Module | str,
    input: InputSpec | str | Sequence[int] | torch.Tensor | None = None,
    *,
    batch_size: int = 10,
    optimizer: str = "sgd",
) -> tuple[Layer, ...]:
    """The layers of a model, given as a module or by name (`zoo:lenet5`, `file.py:factory`)."""
    if batch_size < 1:
        raise ModelError(f"a batch of {batch_size} cannot be trained: use 1 or more")
    if optimizer not in OPTIMIZERS:
        raise ModelError(f"unknown optimizer {optimizer!r}: use one of {', '.join(OPTIMIZERS)}")
    spec = None if input is None else as_input(input)
    if isinstance(model, str):
        model, spec = load_model(model, spec)
    if not isinstance(model, nn.Module):
        raise ModelError(f"a model is an nn.Module or its name, not {type(model).__name__}")
    if any(True for _ in model.parameters()) and not any(
        p.requires_grad for p in model.parameters()
    ):
        raise ModelError(f"{type(model).__name__} is frozen: there is nothing to train")
    if spec is None:
        raise ModelError("the model's input is not known: pass its shape, such as (3, 32, 32)")
    from ampere.inputs import Inputs
    return read_layers(model, Inputs((spec,)), batch_size=batch_size, optimizer=optimizer)


def as_input(input: InputSpec | str | int | Sequence[int] | torch.Tensor) -> InputSpec:
    """An input as text, as a shape without the batch, or as an example batch."""
    if isinstance(input, InputSpec):
        return input
    if isinstance(input, str):
        return parse_input(input)
    if isinstance(input, torch.Tensor):
        if input.is_floating_point():
            return InputSpec(tuple(input.shape[1:]))
        return InputSpec(tuple(input.shape[1:]), "int64", int(input.max()) + 1)
    if isinstance(input, int):
        return InputSpec((input,))
    return InputSpec(tuple(int(size) for size in input))


def plan_variants(layers: Sequence[Layer]) -> Plan:
    """The variants that isolate each kind of these layers."""
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
    first, stacked, other, last = read_layers(model, InputSpec((3, 32, 32)), batch_size=batch_size)
    return (first, last), stacked, other
