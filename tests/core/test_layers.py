"""Layers as plain data: what is written is read back, and what cannot be is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Call, Layer, LayerKind, Port, Role, Size, Structure, Widths, shape_at
from ampere.core.workloads import ModelSpec, Workload
from ampere.errors import DataError, ModelError

names = st.sampled_from(["in", "out", "width"])
numbers = st.integers(1, 10**4)
sizes = st.builds(Size, names, numbers, numbers)
shapes = st.lists(numbers | sizes, max_size=4).map(tuple)
values = st.builds(lambda k, path: {"value": [k, *path] if path else k}, st.integers(0, 9),
                   st.lists(st.integers(0, 2), max_size=2))  # fmt: skip
plain = st.none() | st.booleans() | numbers | st.floats(-1e6, 1e6) | st.text(max_size=5)
arguments = st.dictionaries(
    st.text(max_size=6),
    plain | st.lists(numbers, max_size=3) | sizes.map(lambda s: {"size": str(s)}),
)
parts = st.lists(st.sampled_from(["weight", "bias"]), unique=True, max_size=2).map(tuple)
calls = st.builds(
    Call,
    st.sampled_from(["Conv2d", "torch.flatten", "parameter"]),
    arguments,
    st.lists(values | plain, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=6), plain | values, max_size=2),
    st.booleans(),
    parts,
    parts,
    st.none() | st.integers(1, 9),
    st.booleans(),
)
ports = st.builds(
    Port,
    shapes,
    st.sampled_from(["float32", "int64"]),
    st.none() | numbers,
    st.booleans(),
    st.booleans(),
)
several = st.lists(ports, min_size=1, max_size=3).map(tuple)
structures = st.builds(
    Structure,
    several,
    several,
    st.lists(calls, max_size=3).map(tuple),
    values,
    st.dictionaries(names, numbers, max_size=2),
)
widths = st.dictionaries(names, numbers, max_size=3).map(Widths)
layers = st.builds(
    Layer,
    st.text(max_size=5),
    st.builds(LayerKind, st.text(max_size=5), st.sampled_from(Role), st.text(max_size=5),
              st.dictionaries(st.text(max_size=5), plain, max_size=2), st.none() | structures),
    widths,
)  # fmt: skip


def through_json(row: Any) -> Any:
    return json.loads(json.dumps(row, allow_nan=False))


@given(sizes)
def test_sizes_are_read_back(size: Size) -> None:
    assert Size.parse(str(size)) == size


@given(calls)
def test_calls_are_read_back(call: Call) -> None:
    assert Call.from_json(through_json(call.to_json())) == call


@given(structures)
def test_structures_are_read_back(structure: Structure) -> None:
    back = Structure.from_json(through_json(structure.to_json()))
    assert back == structure
    assert back.digest == structure.digest


@given(st.lists(layers, max_size=3).map(tuple), st.none() | st.builds(ModelSpec, st.text()))
def test_workloads_are_read_back_with_their_structures(
    network: tuple[Layer, ...], model: ModelSpec | None
) -> None:
    workload = Workload(network, model, "forward")
    back = Workload.from_json(through_json(workload.to_json()))
    assert back == workload
    for mine, theirs in zip(network, back.layers, strict=True):
        assert (mine.kind.structure, mine.kind.role) == (theirs.kind.structure, theirs.kind.role)
        assert mine.kind.attributes == theirs.kind.attributes


@given(layers, st.integers(1, 9))
def test_layers_of_rows_are_read_back_without_structure(layer: Layer, count: int) -> None:
    layer = replace(layer, count=count)
    back = Layer.from_json(through_json(layer.to_json()))
    assert back == layer
    assert back.kind.structure is None
    assert (back.kind.role, back.kind.operation) == (layer.kind.role, layer.kind.operation)


@pytest.mark.parametrize("text", ["in", "25*in", "out/4", "3*out/4"])
def test_sizes_as_people_write_them(text: str) -> None:
    assert str(Size.parse(text)) == text


def test_sizes_at_widths() -> None:
    assert Size("in", 25).at({"in": 6}) == 150
    assert Size("out", 3, 4).at({"out": 8}) == 6
    assert shape_at((Size("in"), 5, Size("in", 2)), {"in": 3}) == (3, 5, 6)
    with pytest.raises(ModelError, match="3\\*out/4 is not a whole size at out=6"):
        Size("out", 3, 4).at({"out": 6})


@given(st.dictionaries(names, numbers))
def test_widths_are_a_mapping_whose_order_does_not_matter(sizes: dict[str, int]) -> None:
    backwards = Widths(list(sizes.items())[::-1])
    assert backwards == Widths(sizes) == sizes
    assert hash(backwards) == hash(Widths(sizes))
    assert list(backwards) == sorted(sizes)


def test_a_digest_tells_structures_apart_but_not_allowed_widths() -> None:
    entering, leaving = Port((Size("in"),)), Port((10,))
    structure = Structure((entering,), (leaving,), (Call("Linear"),), multiples={"in": 1})
    assert replace(structure, multiples={"in": 4}).digest == structure.digest
    changes: list[dict[str, Any]] = [
        {"inputs": (Port((Size("in", 2),)),)},
        {"inputs": (entering, entering)},
        {"inputs": (replace(entering, grad=False),)},
        {"inputs": (replace(entering, whole=True),)},
        {"outputs": (Port((9,)),)},
        {"calls": (Call("Linear", frozen=True),)},
        {"calls": (Call("Linear", shared_parts=("weight",)),)},
        {"result": {"value": 1}},
    ]
    digests = {replace(structure, **change).digest for change in changes}
    assert len(digests | {structure.digest}) == len(changes) + 1


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
