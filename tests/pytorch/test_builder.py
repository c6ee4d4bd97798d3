"""Layers back to networks: the same parameters, the same values, and the same layers again."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn

from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import ValueRef
from ampere.core.program.widths import Widths
from ampere.errors import ModelError
from ampere.pytorch.graph.model_reading import read_layers
from ampere.pytorch.runtime.builder import build, build_layer
from ampere.pytorch.runtime.functions import find_function
from ampere.pytorch.runtime.trainer import synthetic_inputs
from ampere.zoo.families import family_names, find_family

FAMILIES = pytest.mark.parametrize("name", family_names())
SHALLOW: dict[str, dict[str, Any]] = {"resnet": {"depth": 8}, "transformer": {"layers": 1}}
few = hypothesis_settings(max_examples=2)
seeds = st.integers(0, 10**6)


def member(name: str, seed: int) -> nn.Module:
    """A member of a family at random widths; all of the same depth."""
    family = find_family(name)
    arguments = family.sample(random.Random(seed))
    return family.build(**{**arguments, **SHALLOW.get(name, {})})


@functools.cache
def original(name: str) -> tuple[Layer, ...]:
    family = find_family(name)
    return read_layers(family.build(**SHALLOW.get(name, {})), family.input)


def shapes(model: nn.Module) -> list[torch.Size]:
    return [parameter.shape for parameter in model.parameters()]


@FAMILIES
@few
@given(seed=seeds)
def test_a_member_and_the_resized_original_are_what_the_family_builds(name: str, seed: int) -> None:
    model = member(name, seed)
    layers = read_layers(model, find_family(name).input)
    assert shapes(build(layers)) == shapes(model)
    pairs = zip(original(name), layers, strict=True)
    resized = [replace(layer, widths=own.widths) for layer, own in pairs]
    assert shapes(build(resized)) == shapes(model)


@FAMILIES
def test_a_built_network_computes_what_the_model_does(name: str) -> None:
    spec = find_family(name).input
    model = member(name, 3).eval()
    built = build(read_layers(model, spec)).eval()
    for tensors in (nn.Module.parameters, nn.Module.buffers):
        for mine, copy in zip(tensors(model), tensors(built), strict=True):
            assert mine.shape == copy.shape
            if mine.is_floating_point():
                mine.data.add_(
                    0.1 * torch.rand_like(mine)
                )  # fresh biases and statistics are all alike
            copy.data.copy_(mine.data)
    (x,), _ = synthetic_inputs(spec, 5)
    assert torch.equal(built(x), model(x))


@FAMILIES
@few
@given(seed=seeds)
def test_what_was_built_is_read_as_the_same_layers(name: str, seed: int) -> None:
    spec = find_family(name).input
    layers = read_layers(member(name, seed), spec)
    again = read_layers(build(layers), spec)
    assert [layer.kind for layer in again] == [layer.kind for layer in layers]
    assert [layer.widths for layer in again] == [layer.widths for layer in layers]
    assert [layer.features for layer in again] == [layer.features for layer in layers]


def test_one_structure_serves_all_widths() -> None:
    conv = original("cnn5")[1]
    for entering, leaving in [(1, 1), (7, 300)]:
        built = build_layer(replace(conv, widths=Widths({"in": entering, "out": leaving})))
        assert shapes(built)[0] == (leaving, entering, 3, 3)


def test_a_network_without_functions_runs_as_a_user_would_write_it() -> None:
    har = build(original("har"))
    assert {type(module) for module in har.modules()} <= {
        nn.Sequential, nn.Conv1d, nn.ReLU, nn.MaxPool1d, nn.Flatten, nn.Linear,
    }  # fmt: skip


def test_frozen_layers_are_built_frozen() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 2))
    model[2].requires_grad_(False)
    built = build(read_layers(model, parse_inputs("4")))
    assert [p.requires_grad for p in built.parameters()] == [True, True, False, False, True, True]


def test_layers_from_a_file_cannot_be_built() -> None:
    layer = Layer("conv", LayerKind("conv", Role.FIRST, "conv2d"), Widths())
    with pytest.raises(ModelError, match="no structure"):
        build([layer])


@pytest.mark.parametrize(
    "name", ["os.system", "torch.nothing", "builtins.eval", "torch.nn.functional"]
)
def test_only_functions_of_torch_are_called(name: str) -> None:
    with pytest.raises(ModelError, match="not a function of torch"):
        find_function(name)


def test_only_modules_of_torch_are_built() -> None:
    calls = (Call("Sequential2", {}, (ValueRef(0),)),)
    structure = Structure((Port((4,)),), (Port((4,)),), calls, ValueRef(1))
    layer = Layer("odd", LayerKind("odd", Role.LAST, "odd", {}, structure), Widths())
    with pytest.raises(ModelError, match="not a module of torch"):
        build([layer])
