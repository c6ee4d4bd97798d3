"""Any model, read as it is: the books balance, layers resize as the real class would, values agree.

Every structure of `reference_models` goes through the same checks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ampere.frameworks.torch.building import build
from ampere.frameworks.torch.counting import backward
from ampere.frameworks.torch.kinds import Setting
from ampere.frameworks.torch.reading import Reading, read_model
from ampere.frameworks.torch.tracing import synthetic_inputs, tensors_in, trace
from ampere.inputs import Inputs, parse_inputs
from ampere.layers import Layer, Role
from ampere.resizing import choices, resample, resize
from reference_models import REFERENCES, Reference, example

BATCH = 4
NAMES = sorted(REFERENCES)
# Reading it needs values, so its whole count is not to be had on the meta device.
BY_VALUES = ("data_branch",)


def read(model: nn.Module, reference: Reference) -> Reading:
    torch.manual_seed(0)  # what a model that looks at values sees
    return read_model(model, parse_inputs(reference.inputs), Setting(BATCH))


def whole_flops(model: nn.Module, reference: Reference) -> int:
    args, kwargs = example(reference, BATCH, "meta")
    with FlopCounterMode(display=False) as counter:
        backward(model.to("meta").train()(*args, **kwargs))
    return counter.get_total_flops()


def used_tensors(model: nn.Module, reference: Reference) -> Iterator[torch.Tensor]:
    """Parameters and buffers in the order in which a forward pass reads them, each time it does."""
    torch.manual_seed(0)
    traced = trace(model, parse_inputs(reference.inputs), BATCH)
    held = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    constants = {call.index: call.name for call in traced.calls if call.parameter is not None}
    for call in traced.calls:
        names = [constants[value.call] for value in call.inputs if value.call in constants]
        if call.module is not None:
            names += [f"{call.where}.{name}" for name in call.module.state_dict()]
        for name in names:
            yield held[name]


def copy_weights(source: nn.Module, target: nn.Module, reference: Reference) -> None:
    theirs, ours = list(used_tensors(source, reference)), list(used_tensors(target, reference))
    with torch.no_grad():
        for mine, original in zip(ours, theirs, strict=True):
            assert mine.shape == original.shape
            mine.copy_(original)


def flat(result: object) -> list[torch.Tensor]:
    return [tensor for _, tensor in tensors_in(result)]


def run(model: nn.Module, reference: Reference) -> list[torch.Tensor]:
    torch.manual_seed(1)
    args, kwargs = example(reference, BATCH)
    with torch.no_grad():
        return flat(model.train()(*args, **kwargs))


def as_called(network: nn.Module) -> nn.Module:
    """A rebuilt network takes all inputs by position; the original may want keywords."""

    class Called(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> object:
            return self.network(*args, *kwargs.values())

    return Called()


@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_flops_add_up(name: str) -> None:
    reference = REFERENCES[name]
    model = reference.build(reference.width)
    reading = read(model, reference)
    held = sum(layer.params or 0 for layer in reading.layers) + sum(reading.unused.values())
    assert held == sum(parameter.numel() for parameter in model.parameters())
    if name not in BY_VALUES:
        counted = sum(layer.features.flops or 0.0 for layer in reading.layers)
        assert counted == whole_flops(reference.build(reference.width), reference)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_class_at_another_width_has_the_same_kinds(name: str) -> None:
    reference = REFERENCES[name]
    narrow = read(reference.build(reference.width), reference).layers
    wide = read(reference.build(reference.wider), reference).layers
    assert [layer.kind.name for layer in narrow] == [layer.kind.name for layer in wide]
    assert all(layer.widths for layer in narrow)  # all of them can be resized
    resized = resize(narrow, named_widths(wide))
    assert [layer.widths for layer in resized] == [layer.widths for layer in wide]


def named_widths(layers: tuple[Layer, ...]) -> dict[str, int]:
    return {f"{layer.name}.{width}": size for layer in layers
            for width, size in layer.widths.items()}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in NAMES if n not in BY_VALUES])
def test_resized_layers_equal_the_real_class_at_the_new_width(name: str) -> None:
    reference = REFERENCES[name]
    real = reference.build(reference.wider)
    wide = read(reference.build(reference.wider), reference).layers
    narrow = read(reference.build(reference.width), reference).layers
    rebuilt = as_called(build(resize(narrow, named_widths(wide))))
    copy_weights(real, rebuilt, reference)
    for mine, theirs in zip(run(rebuilt, reference), run(real, reference), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


RESIZABLE = [name for name in NAMES if name not in BY_VALUES]


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(RESIZABLE), seed=st.integers(0, 2**16))
def test_a_model_at_random_widths_reads_as_these_widths_and_trains(name: str, seed: int) -> None:
    reference = REFERENCES[name]
    original = read(reference.build(reference.width), reference).layers
    drawn = resample(original, random.Random(seed))
    model = build(drawn)
    inputs = parse_inputs(reference.inputs)
    spec = Inputs(tuple(inputs))  # a network of layers takes all its inputs by position
    again = read_model(model, spec, Setting(BATCH)).layers
    assert [layer.widths for layer in again] == [layer.widths for layer in drawn]
    assert [layer.kind for layer in again] == [layer.kind for layer in drawn]

    args, kwargs = synthetic_inputs(spec, BATCH)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=1e-3)
    backward(model.train()(*args, **kwargs))
    optimizer.step()
    assert all(torch.isfinite(p).all() for p in weights)
    assert any(p.grad is not None for p in weights)


def test_every_reference_has_a_choice_of_widths() -> None:
    for name in RESIZABLE:
        reference = REFERENCES[name]
        layers = read(reference.build(reference.width), reference).layers
        free = [choice for choice in choices(layers) if not choice.fixed]
        assert free and all(choice.size % choice.step == 0 for choice in free), name


def roles(layers: tuple[Layer, ...]) -> list[Role]:
    return [layer.kind.role for layer in layers]
