"""Layers as plain data: what is written is read back, and what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Features, Layer, LayerKind, Role, network_identity, sources_of
from ampere.core.program.structure import Port, Structure
from ampere.core.program.widths import Widths
from ampere.errors import DataError
from structures import layers, through_json


@given(layers, st.integers(1, 9))
def test_layers_of_rows_are_read_back_without_structure(layer: Layer, count: int) -> None:
    layer = replace(layer, count=count)
    back = Layer.from_json(through_json(layer.to_json()))
    assert back == layer
    assert back.kind.structure is None
    assert (back.kind.role, back.kind.operation) == (layer.kind.role, layer.kind.operation)


def test_the_name_of_a_kind_is_its_identity() -> None:
    assert LayerKind("a", Role.LAST, "linear") == LayerKind("a", Role.FIRST, "conv", {"batch": 3})
    assert LayerKind("a", Role.LAST, "linear") != LayerKind("b", Role.LAST, "linear")


def test_a_layer_of_another_tool_needs_only_its_kind() -> None:
    layer = Layer.from_json({"kind": "conv"})
    assert (layer.name, layer.kind.name, layer.kind.operation) == ("conv", "conv", "conv")
    assert (layer.kind.role, dict(layer.widths), layer.count) == (Role.HIDDEN, {}, 1)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"kind": "conv", "role": "middle"},
        {"kind": "conv", "widths": {"in": 0}},
        {"kind": "conv", "widths": {"in": "wide"}},
        {"kind": "conv", "widths": 3},
        {"kind": "conv", "count": 0},
        {"kind": "conv", "features": {"watts": 3}},
        {"kind": "conv", "features": {"flops": "many"}},
        ["conv"],
        None,
    ],
)
def test_what_is_no_layer_is_refused_in_one_line(row: Any) -> None:
    with pytest.raises(DataError) as caught:
        Layer.from_json(row)
    assert "\n" not in str(caught.value)


def test_structures_are_read_only_where_they_are_asked_for() -> None:
    """A row of a file may bring one; nothing is ever built from it."""
    kind = LayerKind("a", Role.LAST, "linear", {}, Structure((Port((4,)),), (Port((4,)),), ()))
    row = through_json(Layer("a", kind, Widths()).to_json(with_structure=True))
    assert Layer.from_json(row).kind.structure is None
    assert Layer.from_json(row, with_structure=True).kind.structure == kind.structure


def layer(kind: str, attributes: dict[str, Any] | None = None, **widths: int) -> Layer:
    return Layer(kind, LayerKind(kind, Role.HIDDEN, "conv", attributes or {}), Widths(widths))


def test_layers_are_the_same_by_kind_attributes_and_widths() -> None:
    one = layer("conv", {"kernel": 3, "batch": 10}, out=4)
    same = replace(one, name="other", features=Features(3.0), count=2)
    assert same.identity == one.identity
    assert layer("conv", {"batch": 10, "kernel": 3}, out=4).identity == one.identity
    others = [
        layer("pool", {"kernel": 3, "batch": 10}, out=4),
        layer("conv", {"kernel": 5, "batch": 10}, out=4),  # a name need not tell all
        layer("conv", {"kernel": 3, "batch": 10}, out=5),
    ]
    assert len({one.identity, *(other.identity for other in others)}) == 4


@given(layers)
def test_a_layer_read_back_is_the_same_layer(layer: Layer) -> None:
    assert Layer.from_json(through_json(layer.to_json())).identity == layer.identity


def test_networks_are_the_same_in_any_order() -> None:
    one, two = layer("conv", width=3), layer("pool", width=3)
    assert network_identity([one, two]) == network_identity([two, one])
    assert network_identity([one]) != network_identity([one, one])
    assert network_identity([one, two]) != network_identity([one, replace(two, count=2)])


def test_inputs_come_from_the_layer_before_unless_it_is_said() -> None:
    """The first layer of a chain reads all that the network is fed."""
    two_inputs = Structure((Port((4,)), Port((4,))), (Port((4,)),), ())
    first = Layer("a", LayerKind("a", Role.FIRST, "add", {}, two_inputs), Widths())
    skip = replace(layer("b"), reads=((0, 0), (-1, 1)))
    assert sources_of([first, layer("c"), skip]) == [((-1, 0), (-1, 1)), ((0, 0),), skip.reads]
    fed = replace(first, reads=((-1, 1), (-1, 0)))
    assert sources_of([fed]) == [fed.reads]
