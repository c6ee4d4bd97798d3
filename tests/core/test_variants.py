"""Variants: each kind of a model alone, between a FIRST and a LAST that fit it, and trainable."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.sizes import Size, shape_at
from ampere.core.program.structure import Structure
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.core.variants import Isolation, Plan, Variant, isolate, tell_apart
from ampere.core.workloads import Settings, Workload
from ampere.errors import ModelError
from ampere.frameworks.models import plan_variants
from ampere.pytorch.graph.model_reading import read_layers
from ampere.pytorch.graph.standins import first_for, last_for
from ampere.pytorch.runtime.builder import build_layer, example_inputs
from ampere.pytorch.runtime.trainer import make_trainer
from ampere.zoo.families import family_names, find_family
from fakes import plain_layer, plain_plan

FAMILIES = pytest.mark.parametrize("name", family_names())
ORDER = [Role.LAST, Role.FIRST, Role.HIDDEN]


@functools.cache
def planned(name: str) -> tuple[tuple[Layer, ...], Plan]:
    """The layers of a family's original, and how they are isolated."""
    layers = read_layers(find_family(name).build(), find_family(name).input)
    return layers, plan_variants(layers)


def at_bounds(isolation: Isolation) -> list[Variant]:
    """The smallest and the largest variant."""
    ends = [Widths({name: side[i] for name, side in isolation.bounds.items()}) for i in (0, 1)]
    return [isolate(isolation, widths) for widths in ends]


def structure(kind: LayerKind | None) -> Structure:
    assert kind is not None
    assert kind.structure is not None
    return kind.structure


def assert_between_neighbours(plan: Plan) -> None:
    """Each kind of a chain stands behind a FIRST and before a LAST, as far as it is neither."""
    for isolation in plan.isolations:
        role = isolation.kind.role
        assert (isolation.first is not None) == (role is Role.HIDDEN)
        assert (isolation.last is not None) == (role is not Role.LAST)


def assert_trains(isolation: Isolation) -> None:
    """The variants of a kind build, and a step changes them."""
    for variant in at_bounds(isolation):
        trainer = make_trainer(Workload(variant.layers), Settings())
        before = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.step()
        after = list(trainer.model.parameters())
        assert all(p.isfinite().all() for p in after)
        assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


FOLLOWERS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "pool": lambda: nn.MaxPool2d(3, 1, padding=1),
    "norm": lambda: nn.BatchNorm2d(8),
}


def chain(frozen: int, follower: str = "relu") -> tuple[Layer, ...]:
    """Three convolutions, each with a follower, and a head; the first ones do not train."""
    convolutions = [nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1) for i in range(3)]
    pairs = [nn.Sequential(conv, FOLLOWERS[follower]()) for conv in convolutions]
    for pair in pairs[:frozen]:
        pair.requires_grad_(False)
    model = nn.Sequential(*pairs, nn.Flatten(), nn.Linear(8 * 64, 3))
    return read_layers(model, parse_inputs("3x8x8"))


@FAMILIES
def test_every_kind_of_the_model_is_isolated_last_before_first_before_hidden(name: str) -> None:
    layers, plan = planned(name)
    roles = [isolation.kind.role for isolation in plan.isolations]
    assert roles == sorted(roles, key=ORDER.index)
    assert_between_neighbours(plan)
    kinds = [isolation.kind for isolation in plan.isolations]
    assert len(set(kinds)) == len(kinds)
    assert {layer.kind for layer in layers} <= set(kinds)


@FAMILIES
def test_what_a_variant_subtracts_is_isolated_before_it_and_in_range(name: str) -> None:
    _, plan = planned(name)
    known: dict[LayerKind, Isolation] = {}
    for isolation in plan.isolations:
        for variant in at_bounds(isolation):
            assert variant.subject.kind == isolation.kind
            for layer in variant.layers:
                if layer is variant.subject:
                    continue
                for width, size in layer.widths.items():
                    low, high = known[layer.kind].bounds[width]
                    assert low <= size <= high
        known[isolation.kind] = isolation


@FAMILIES
def test_the_models_own_widths_are_in_range(name: str) -> None:
    layers, plan = planned(name)
    bounds = {isolation.kind: isolation.bounds for isolation in plan.isolations}
    for layer in layers:
        for width, size in layer.widths.items():
            low, high = bounds[layer.kind][width]
            assert structure(layer.kind).multiples[width] == low <= size <= high


@FAMILIES
def test_variants_build_and_train_at_both_bounds(name: str) -> None:
    _, plan = planned(name)
    for isolation in plan.isolations:
        assert_trains(isolation)


@FAMILIES
def test_layers_of_a_variant_meet_in_the_hidden_kinds_map(name: str) -> None:
    _, plan = planned(name)
    for isolation in plan.isolations:
        if isolation.first is None:
            continue
        for variant in at_bounds(isolation):
            first, hidden, _ = variant.layers
            delivered = build_layer(first).eval()(*example_inputs(first))
            wanted = shape_at(structure(hidden.kind).input, hidden.widths)
            assert tuple(delivered.shape[1:]) == wanted
            assert shape_at(structure(first.kind).output, first.widths) == wanted


@FAMILIES
def test_stand_ins_for_a_layers_own_neighbours_are_the_same_kind(name: str) -> None:
    layers, _ = planned(name)
    first, last = layers[0].kind, layers[-1].kind
    assert last_for(last, structure(last).input, structure(last).input_grad) == last
    grad = any(not call.frozen for call in structure(first).calls)
    assert first_for(first, structure(first).output, grad) == first


@FAMILIES
def test_a_first_is_frozen_where_no_gradient_flows_back(name: str) -> None:
    (first, *_), _ = planned(name)
    frozen = first_for(first.kind, structure(first.kind).output, input_grad=False)
    assert not any(p.requires_grad for p in build_layer(replace(first, kind=frozen)).parameters())
    thawed = first_for(frozen, structure(first.kind).output, input_grad=True)
    assert all(p.requires_grad for p in build_layer(replace(first, kind=thawed)).parameters())


def test_variants_have_one_two_or_three_layers() -> None:
    _, plan = planned("cnn5")
    variants = [at_bounds(isolation)[1] for isolation in plan.isolations]
    sizes = {variant.subject.kind.role: len(variant.layers) for variant in variants}
    assert sizes == {Role.LAST: 1, Role.FIRST: 2, Role.HIDDEN: 3}
    roles = [layer.kind.role for layer in variants[-1].layers]
    assert roles == [Role.FIRST, Role.HIDDEN, Role.LAST]
    assert str(variants[-1]) == "conv2d(in=128, out=128)"


def test_an_isolated_last_hands_a_gradient_back_and_a_first_does_not() -> None:
    _, plan = planned("cnn5")
    last, first = plan.isolations[0], next(i for i in plan.isolations if i.kind.role is Role.FIRST)
    alone = make_trainer(Workload(at_bounds(last)[1].layers), Settings())
    alone.backward(alone.forward())
    assert alone.args[0].grad is not None
    (x,) = make_trainer(Workload(at_bounds(first)[1].layers), Settings()).args
    assert not x.requires_grad


@pytest.mark.parametrize("frozen", [0, 1, 2, 3])
@pytest.mark.parametrize("follower", FOLLOWERS)
def test_gradients_of_a_variant_stop_where_they_do_in_the_model(frozen: int, follower: str) -> None:
    plan = plan_variants(chain(frozen, follower))
    assert_between_neighbours(plan)
    for isolation in plan.isolations:
        layers = at_bounds(isolation)[1].layers
        (x,) = example_inputs(layers[0])
        for layer, behind in itertools.pairwise(layers):
            x = build_layer(layer)(x)
            assert x.requires_grad == structure(behind.kind).input_grad, layer.kind.name
        make_trainer(Workload(layers), Settings()).step()


def test_a_frozen_prefix_has_stand_ins_of_its_own() -> None:
    free, frozen = ([i.kind.name for i in plan_variants(chain(n)).isolations] for n in (0, 2))
    assert not any("frozen" in name for name in free)
    assert [name.split()[0] for name in frozen if "frozen" in name] == ["first", "hidden"]


def test_a_kind_that_no_first_can_feed_is_given_its_input_from_outside() -> None:
    model = nn.Sequential(  # the padding of FIRST makes maps of 7×7 and more
        nn.Conv2d(3, 4, 3, padding=4), nn.Conv2d(4, 4, 3, stride=4), nn.Conv2d(4, 4, 3, padding=1),
        nn.Flatten(), nn.Linear(4 * 9, 3),
    )  # fmt: skip
    layers = read_layers(model, parse_inputs("3x8x8"))
    isolations = {isolation.kind: isolation for isolation in plan_variants(layers).isolations}
    first, large, small, last = (layer.kind for layer in layers)
    with pytest.raises(ModelError, match=r"no input makes .* deliver inx3x3"):
        first_for(first, structure(small).input, input_grad=True)
    assert isolations[large].first == first
    assert (isolations[small].first, isolations[small].last) == (None, last)
    variant = at_bounds(isolations[small])[1]
    assert [layer.kind.role for layer in variant.layers] == [Role.HIDDEN, Role.LAST]
    trainer = make_trainer(Workload(variant.layers), Settings())
    trainer.step()
    (x,) = trainer.args
    assert x.shape == (10, 4, 3, 3) and x.grad is not None


class Gated(nn.Module):
    """A head with two branches, which no other input fits."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.gates = nn.Linear(8 * 36, 3), nn.Linear(8 * 36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        return self.scores(x) * self.gates(x).sigmoid()


def test_a_plain_head_stands_in_for_a_last_that_does_not_fit() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), Gated())
    first, hidden, last = read_layers(model, parse_inputs("3x8x8"), Training(loss="sum"))
    plan = plan_variants([first, hidden, last])
    assert_between_neighbours(plan)
    assert {layer.kind for layer in (first, hidden, last)} <= {i.kind for i in plan.isolations}
    behind_first = next(i.last for i in plan.isolations if i.kind == first.kind)
    assert [call.op for call in structure(behind_first).calls] == ["torch.mean", "Linear"]
    assert structure(behind_first).input == (Size("in"), 8, 8)
    assert behind_first is not None and "loss" not in behind_first.attributes
    for isolation in plan.isolations:
        assert_trains(isolation)


def test_layers_that_take_or_deliver_several_tensors_are_isolated_too() -> None:
    class Split(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 8)
            self.c, self.d = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            left, right = self.b(self.a(x).relu()).chunk(2, 1)
            return self.d(self.c(left).relu() + right)

    layers = read_layers(Split(), parse_inputs("4"))
    ports = [
        (len(structure(each.kind).inputs), len(structure(each.kind).outputs)) for each in layers
    ]
    assert ports == [(1, 1), (1, 2), (2, 1), (1, 1)]
    isolations = {isolation.kind: isolation for isolation in plan_variants(layers).isolations}
    assert {layer.kind for layer in layers} <= set(isolations)
    for isolation in isolations.values():
        assert_trains(isolation)
    joins = at_bounds(isolations[layers[2].kind])[1]
    assert [layer.reads for layer in joins.layers] == [((-1, 0), (-1, 1)), ((0, 0),)]
    trainer = make_trainer(Workload(joins.layers), Settings())
    trainer.step()
    assert [x.grad is not None for x in trainer.args] == [True, True]


def test_layers_without_structure_cannot_be_isolated() -> None:
    layers, _ = planned("cnn5")
    plain = tuple(replace(layer, kind=replace(layer.kind, structure=None)) for layer in layers)
    with pytest.raises(ModelError, match="no structure"):
        plan_variants(plain)


@FAMILIES
def test_layers_are_told_apart_at_their_own_widths(name: str) -> None:
    layers, plan = planned(name)
    variants = tell_apart(layers, plan)
    assert len(set(variants)) == len(variants)
    subjects = {variant.subject.identity for variant in variants}
    assert {layer.identity for layer in layers} <= subjects
    for variant in variants:  # what stands around a layer is also there without it
        assert {layer.identity for layer in variant.layers} <= subjects


def test_a_width_that_neighbours_cannot_have_is_the_next_below() -> None:
    plan = plain_plan(64, multiple=4)
    *_, hidden = plan.isolations
    layer = plain_layer(hidden.kind, in_=3, out=63)
    widths = [tuple(variant.subject.widths.values()) for variant in tell_apart([layer], plan)]
    assert sorted(widths) == [(4,), (4,), (4, 60), (60,)]  # FIRST has a LAST of its own
