"""Models to layers: nothing is lost, nothing is counted twice, and members of a family share kinds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.flop_counter import FlopCounterMode

from ampere import zoo
from ampere.errors import ModelError
from ampere.frameworks.torch.reading import read_layers
from ampere.frameworks.torch.tracing import synthetic_input
from ampere.inputs import InputSpec
from ampere.layers import Layer, Role

FAMILIES = pytest.mark.parametrize("name", zoo.names())
LAYERS = {"lenet5": 5, "cnn5": 5, "har": 5, "lstm": 3, "transformer": 2 + 2 * 4, "resnet": 2 + 9}
TOKENS = InputSpec((5,), "int64", 20)


class Written(nn.Module):
    """A model as users write them: modules by name, and a forward of their own."""

    def __init__(self, forward: Callable[[Any, Tensor], Any], **held: Any) -> None:
        super().__init__()
        for name, thing in held.items():
            setattr(self, name, thing)
        self._forward = forward

    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


def read(model: nn.Module, *shape: int, batch: int = 10) -> tuple[Layer, ...]:
    return read_layers(model, InputSpec(shape), batch_size=batch)


def operations(layers: tuple[Layer, ...]) -> list[str]:
    """What each layer does, out of names such as `first conv2d5x5+relu @1x28x28 ...`."""
    return [layer.kind.name.split()[1] for layer in layers]


def assert_complete(layers: tuple[Layer, ...], model: nn.Module, spec: InputSpec) -> None:
    """Parameters and FLOPs of the layers are those of the model."""
    assert sum(layer.params or 0 for layer in layers) == sum(p.numel() for p in model.parameters())
    whole = model.to("meta").train()
    with FlopCounterMode(display=False) as counter:
        whole(synthetic_input(spec, 10, "meta")).sum().backward()
    assert sum(layer.features.flops or 0 for layer in layers) == counter.get_total_flops()


def members(name: str, count: int = 4) -> list[nn.Module]:
    family, rng = zoo.family(name), random.Random(7)
    return [family.build(), *(family.build(**family.sample(rng)) for _ in range(count))]


@FAMILIES
def test_nothing_is_lost_or_counted_twice(name: str) -> None:
    spec = zoo.family(name).input
    for model in members(name):
        assert_complete(read_layers(model, spec), model, spec)


@FAMILIES
def test_first_hidden_last(name: str) -> None:
    layers = read_layers(zoo.family(name).build(), zoo.family(name).input)
    assert len(layers) == LAYERS[name]
    hidden = [Role.HIDDEN] * (len(layers) - 2)
    assert [layer.kind.role for layer in layers] == [Role.FIRST, *hidden, Role.LAST]
    assert len({layer.name for layer in layers}) == len(layers)


@FAMILIES
def test_one_profile_serves_the_family(name: str) -> None:
    spec = zoo.family(name).input
    original, *others = (read_layers(model, spec) for model in members(name, 6))
    kinds = {layer.kind for layer in original}
    assert len(kinds) <= 7
    for layers in others:
        assert {layer.kind for layer in layers} <= kinds


@FAMILIES
def test_the_batch_is_part_of_the_kind_but_not_of_its_shapes(name: str) -> None:
    family = zoo.family(name)
    ten, eleven = (read_layers(family.build(), family.input, batch_size=n) for n in (10, 11))
    for one, other in zip(ten, eleven, strict=True):
        assert one.kind != other.kind
        assert one.kind.structure == other.kind.structure


def test_the_optimiser_is_part_of_the_kind() -> None:
    model, spec = zoo.family("cnn5").build(), InputSpec((3, 32, 32))
    sgd, adam = (read_layers(model, spec, optimizer=name) for name in ("sgd", "adam"))
    assert not {layer.kind for layer in sgd} & {layer.kind for layer in adam}


def test_functions_and_modules_are_both_understood() -> None:
    modules = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3)
    )
    functions = Written(
        lambda m, x: m.b(torch.flatten(F.max_pool2d(F.relu(m.a(x)), 2), 1)),
        a=nn.Conv2d(1, 4, 3),
        b=nn.Linear(4 * 9, 3),
    )
    for layers in (read(modules, 1, 8, 8), read(functions, 1, 8, 8)):
        assert [dict(layer.widths) for layer in layers] == [{"out": 4}, {"in": 4}]
    assert operations(read(modules, 1, 8, 8)) == ["conv2d3x3+relu+maxpool2d2", "flatten+linear"]
    assert operations(read(functions, 1, 8, 8)) == ["conv2d3x3+relu+max_pool2d", "flatten+linear"]


def test_what_gives_up_the_map_belongs_to_the_layer_behind_it() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5), nn.Dropout(), nn.Linear(5, 3),
    )  # fmt: skip
    assert operations(read(model, 3, 8, 8)) == [
        "conv2d3x3+batchnorm2d+relu",
        "conv2d3x3+batchnorm2d+relu+maxpool2d2",
        "adaptiveavgpool2d+flatten+linear+dropout",
        "linear",
    ]


@pytest.mark.parametrize(
    "flatten",
    [
        lambda x: x.view(-1, 16 * 5 * 5),
        lambda x: x.view(x.size(0), -1),
        lambda x: x.reshape(x.shape[0], 400),
        lambda x: x.flatten(1),
    ],
)
def test_flattening_is_understood_however_it_is_written(flatten: Callable[[Tensor], Tensor]) -> None:
    model = Written(
        lambda m, x: m.b(flatten(F.relu(m.a(x)))), a=nn.Conv2d(1, 16, 4), b=nn.Linear(400, 3)
    )
    first, last = read(model, 1, 8, 8)
    assert (dict(first.widths), dict(last.widths)) == ({"out": 16}, {"in": 16})
    assert last.kind.structure is not None
    assert "400" not in str(last.kind.structure.to_json())


def test_a_reshape_that_is_not_understood_pins_the_widths() -> None:
    model = Written(
        lambda m, x: m.c(m.b(m.a(x).reshape(-1, 3, 32)).mean(1)),
        a=nn.Conv2d(1, 6, 5), b=nn.Linear(32, 7), c=nn.Linear(7, 2),
    )  # fmt: skip
    layers = read(model, 1, 8, 8)
    assert [dict(layer.widths) for layer in layers] == [{}, {"out": 7}, {"in": 7}]
    assert_complete(layers, model, InputSpec((1, 8, 8)))


def test_a_plain_perceptron() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3))
    layers = read(model, 8)
    assert operations(layers) == ["linear+tanh", "linear+tanh", "linear"]
    assert [layer.name for layer in layers] == ["0", "2", "4"]
    assert dict(layers[1].widths) == {"in": 16, "out": 12}
    assert_complete(layers, model, InputSpec((8,)))


def test_a_1d_network_with_transposed_maps() -> None:
    model = Written(
        lambda m, x: m.c(F.relu(m.b(F.relu(m.a(x)))).transpose(1, 2)).mean(1),
        a=nn.Conv1d(3, 6, 3), b=nn.Conv1d(6, 9, 3), c=nn.Linear(9, 2),
    )  # fmt: skip
    layers = read(model, 3, 16)
    assert [dict(layer.widths) for layer in layers] == [{"out": 6}, {"in": 6, "out": 9}, {"in": 9}]
    assert_complete(layers, model, InputSpec((3, 16)))


@pytest.mark.parametrize(
    "swap",
    [lambda x: x.transpose(dim0=1, dim1=2), lambda x: torch.permute(x, dims=(0, 2, 1))],
)
def test_arguments_may_be_given_by_name(swap: Callable[[Tensor], Tensor]) -> None:
    model = Written(lambda m, x: m.b(swap(m.a(x))), a=nn.Conv1d(3, 6, 3), b=nn.Linear(6, 2))
    assert_complete(read(model, 3, 8), model, InputSpec((3, 8)))


def test_in_place_operations() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 6, 3), nn.ReLU(inplace=True),
        nn.Flatten(), nn.Linear(6 * 16, 3),
    )  # fmt: skip
    layers = read(model, 1, 8, 8)
    assert operations(layers) == ["conv2d3x3+relu", "conv2d3x3+relu", "flatten+linear"]
    assert_complete(layers, model, InputSpec((1, 8, 8)))


def test_in_place_addition_to_what_enters_a_block() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        x = m.a(x)
        x += m.b(x)
        return m.c(x)

    model = Written(forward, a=nn.Linear(4, 5), b=nn.Linear(5, 5), c=nn.Linear(5, 3))
    layers = read(model, 4)
    assert dict(layers[1].widths) == {"width": 5}
    assert_complete(layers, model, InputSpec((4,)))


def test_bare_parameters_belong_to_the_layer_that_needs_them() -> None:
    layers = read_layers(zoo.family("transformer").build(d_model=8), InputSpec((64,), "int64", 1000))
    assert layers[0].params == 1000 * 8 + 64 * 8


def test_residual_additions_tie_widths() -> None:
    layers = read_layers(zoo.family("resnet").build(), InputSpec((3, 32, 32)))
    assert {layer.name: tuple(layer.widths) for layer in layers if layer.name.endswith((".0", ".1"))} == {
        "stages.0.0": ("width",), "stages.0.1": ("width",),
        "stages.1.0": ("in", "out"), "stages.1.1": ("width",),
        "stages.2.0": ("in", "out"), "stages.2.1": ("width",),
    }  # fmt: skip


def test_depthwise_convolutions_tie_widths_and_grouped_ones_need_multiples() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 12, 1, groups=4),
        nn.Flatten(), nn.Linear(12 * 16, 3),
    )  # fmt: skip
    layers = read(model, 3, 8, 8)
    assert dict(layers[1].widths) == {"width": 8}
    assert layers[2].kind.structure is not None
    assert dict(layers[2].kind.structure.multiples) == {"in": 4, "out": 4}
    assert_complete(layers, model, InputSpec((3, 8, 8)))
