"""Layers as numbers: exact small cases, worked out by hand."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import SIZE, Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.types import Json
from ampere.estimators.encoding.encoder import (
    FEATURES,
    STEP,
    Encoder,
    distinct,
)
from ampere.estimators.encoding.places import TILES, stairs, starts
from fakes import FIRST, HIDDEN, LAST, plain_layer, plain_model

KNOWN = Features(1000.0, 200.0, 30.0)
widths = st.integers(1, 512)


def sized(sizes: Mapping[str, int]) -> Layer:
    return Layer("layer", LayerKind("conv", Role.HIDDEN, "conv"), Widths(sizes), KNOWN)


def conv(
    *,
    name: str = "conv",
    role: Role = Role.HIDDEN,
    known: Features = KNOWN,
    attributes: Mapping[str, Json] | None = None,
    **sizes: int,
) -> Layer:
    kind = LayerKind(name, role, "conv", attributes or {})
    return Layer("layer", kind, Widths({k.rstrip("_"): size for k, size in sizes.items()}), known)


def coordinates(layer: Layer) -> dict[str, float]:
    encoder = Encoder.of([layer])
    return dict(zip(encoder.coordinates, encoder.encode([layer]).x[0].tolist(), strict=True))


def features(layer: Layer) -> list[float]:
    row: list[float] = Encoder.of([layer]).encode([layer]).features[0].tolist()
    return row


def test_a_step_is_a_constant_of_its_own() -> None:
    assert features(STEP) == [1.0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert len(STEP.widths) == 0


def test_a_layer_is_a_constant_flops_and_bytes() -> None:
    assert features(conv(in_=3, out=5)) == [0, 1.0, 1000.0, 200.0, 30.0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("operation", "attributes", "times"),
    [
        ("lstm", {"length": 32}, 32.0),
        ("rnn", {"sequence": 50176, "batch": 10}, 50176.0),
        ("2×gru+linear", {"length": 7}, 7.0),
        ("lstm", {}, 1.0),
        ("lstm", {"length": 0}, 1.0),
        ("lstm", {"length": "long"}, 1.0),
        ("lstm", {"length": 32, SIZE: 100.0}, 1.0),
        ("linear", {"length": 32}, 1.0),
        ("multiheadattention", {"sequence": 32}, 1.0),
    ],
)
def test_a_recurrent_layer_is_started_at_every_step(
    operation: str, attributes: dict[str, Json], times: float
) -> None:
    kind = LayerKind("kind", Role.HIDDEN, operation, attributes)
    assert starts(kind) == times
    assert features(Layer("layer", kind, Widths({"in": 3}), KNOWN))[1] == times


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["conv", "linear", "lstm"]),
            st.dictionaries(st.sampled_from(["in", "out", "width"]), widths),
            st.dictionaries(st.sampled_from(["batch", "length", "of"]), st.integers(0, 9)),
            st.sampled_from([KNOWN, Features(), Features(7.0)]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_layers_are_encoded_together_as_they_are_one_by_one(
    drawn: list[tuple[str, dict[str, int], dict[str, Json], Features]], rounded: bool
) -> None:
    layers = [STEP]
    for operation, sizes, attributes, known in drawn:
        kind = LayerKind(f"a {operation}", Role.HIDDEN, operation, attributes)
        layers.append(Layer("layer", kind, Widths(sizes), known))
    encoder = Encoder.of(layers, rounded)
    together = encoder.encode(layers)
    np.testing.assert_array_equal(encoder.features(layers), together.features)
    for i, layer in enumerate(layers):
        alone = encoder.encode([layer])
        for field in dataclasses.fields(together):
            np.testing.assert_array_equal(
                getattr(alone, field.name)[0], getattr(together, field.name)[i]
            )


def test_bytes_that_nobody_counted_are_none() -> None:
    assert features(conv(known=Features(7.0), out=5)) == [0, 1.0, 7.0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("sizes", "tile", "factor"),
    [
        ({"out": 17}, 16, 32 / 17),
        ({"out": 16}, 16, 1.0),
        ({"out": 1}, 8, 8.0),
        ({"in": 17, "out": 9}, 16, 32 / 17 * 16 / 9),
        ({"in": 17, "out": 9}, 8, 24 / 17 * 16 / 9),
        ({}, 32, 1.0),
    ],
)
def test_stairs_are_what_widths_lack_to_the_next_tile(
    sizes: dict[str, int], tile: int, factor: float
) -> None:
    layer = sized(sizes)
    (row,) = Encoder.of([layer]).encode([layer]).stairs
    assert row[TILES.index(tile)] == pytest.approx(math.log2(factor), abs=1e-12)


@pytest.mark.parametrize(
    ("width", "lacks"), [(8, 0), (64, 0), (4, 1 / 3), (12, 1 / 3), (6, 2 / 3), (7, 1), (43, 1)]
)
def test_the_last_stair_is_what_a_width_lacks_to_a_vector(width: int, lacks: float) -> None:
    assert stairs(np.array([[width]]))[0, -1] == pytest.approx(lacks)


@given(st.lists(st.tuples(widths, widths), min_size=1, max_size=5))
def test_many_sizes_at_once_are_the_same_as_one_by_one(sizes: list[tuple[int, int]]) -> None:
    layers = [conv(known=Features(2.0 * a * b, 4.0 * a, 8.0 * b), in_=a, out=b) for a, b in sizes]
    counted = np.array([[2.0 * a * b, 4.0 * a, 8.0 * b] for a, b in sizes])
    encoder, together = Encoder.of(layers), np.array(sizes)
    columns = encoder.columns(layers[0], counted, together)
    np.testing.assert_allclose(columns, [features(layer) for layer in layers], rtol=1e-12)
    np.testing.assert_allclose(stairs(together), encoder.encode(layers).stairs)
    assert (stairs(together) >= 0).all()


def test_a_layer_without_flops_has_the_sum_and_the_product_of_its_widths() -> None:
    assert features(plain_layer(HIDDEN, in_=3, out=5)) == [0, 1.0, 0, 0, 0, 8.0, 15.0, 0, 0]
    some = Features(activation_bytes=7.0, parameter_bytes=9.0)
    assert features(conv(known=some, in_=3, out=5)) == [0, 1.0, 0, 0, 0, 8.0, 15.0, 0, 0]


def test_a_layer_without_flops_and_widths_is_a_constant() -> None:
    row = features(conv(known=Features()))
    assert row[1] > 0
    assert all(math.isfinite(value) and value >= 0 for value in row)


def test_coordinates_are_logarithms_of_widths_and_numbers() -> None:
    layer = conv(in_=8, out=64, attributes={"height": 15, "stride": 1, "padding": 0})
    assert coordinates(layer) == {
        "in": 3.0, "out": 6.0, "@height": 4.0, "@stride": 1.0, "@padding": 0.0, "@hidden": 1.0,
        "#bytes": math.log2(231),
    }  # fmt: skip


@pytest.mark.parametrize("value", ["adam", -1, None, [3, 3]])
def test_attributes_that_are_no_sizes_are_there_or_not(value: Json) -> None:
    assert coordinates(conv(attributes={"what": value}))[f"@what={value}"] == 1.0


def test_categories_are_as_far_from_each_other_as_from_none() -> None:
    adam, sgd, none = (conv(attributes=a) for a in ({"opt": "adam"}, {"opt": "sgd"}, {}))
    encoder = Encoder.of([adam, sgd, none])
    x = encoder.encode([adam, sgd, none]).x
    assert encoder.coordinates == ("#bytes", "@hidden", "@opt=adam", "@opt=sgd")
    np.testing.assert_array_equal(x[:, 1:], [[1, 1, 0], [1, 0, 1], [1, 0, 0]])


def test_a_role_is_a_coordinate() -> None:
    first, last = conv(role=Role.FIRST, name="a"), conv(role=Role.LAST, name="b")
    encoder = Encoder.of([first, last])
    np.testing.assert_array_equal(encoder.encode([first, last]).x[:, 1:], np.eye(2))


def test_what_was_never_measured_has_numbers_below_0_of_its_own() -> None:
    encoder = Encoder.of([conv(out=8)])
    other_kind, other_operation = conv(name="conv 5x5", out=8), plain_layer(HIDDEN, in_=2, out=2)
    encoded = encoder.encode([conv(out=9), other_kind, other_operation])
    assert encoded.op.tolist()[:2] == [0, 0]
    assert encoded.op[2] < -1
    assert encoded.kind[0] == 0
    assert max(encoded.kind[1:]) < -1
    assert len(set(encoded.kind.tolist())) == 3
    assert encoder.encode([other_kind]).kind[0] == encoded.kind[1]
    assert [encoder.knows(layer) for layer in (conv(out=9), other_kind)] == [True, False]


def test_coordinates_that_were_never_measured_are_left_out() -> None:
    encoder = Encoder.of([conv(out=8)])
    assert (
        encoder.encode([conv(out=8, heads=4)]).x.tolist()
        == encoder.encode([conv(out=8)]).x.tolist()
    )


def test_how_many_things_about_a_layer_were_never_measured_is_counted() -> None:
    encoder = Encoder.of([conv(out=8)])
    linear = LayerKind("linear", Role.HIDDEN, "linear", {"dtype": "bfloat16"})
    strange = Layer("new", linear, Widths({"out": 4}), KNOWN)
    assert encoder.encode([conv(out=9), conv(out=8, heads=4), strange]).novel.tolist() == [0, 1, 2]


def test_numbers_do_not_depend_on_the_order_of_layers() -> None:
    layers = [*plain_model(4, 8, 16), STEP, conv(out=3)]
    shuffled = random.Random(1).sample(layers, len(layers))
    assert shuffled != layers
    assert Encoder.of(layers) == Encoder.of(shuffled)


def test_no_layer_is_no_row() -> None:
    encoded = Encoder.of([conv(out=8)]).encode([])
    assert len(encoded) == 0
    assert encoded.features.shape == (0, FEATURES)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 3))
def test_the_same_layer_has_the_same_id_in_every_call(a: int, b: int, count: int) -> None:
    encoder = Encoder.of(plain_model(a, b))
    layer, again = (plain_layer(HIDDEN, n, in_=a, out=b) for n in (1, count))
    other = plain_layer(HIDDEN, in_=a, out=b + 1)
    (one,), (two, three) = encoder.encode([layer]).id, encoder.encode([other, again]).id
    assert one == three != two
    assert one >= 0


def test_the_same_layer_has_the_same_id_in_every_process() -> None:
    layer = conv(out=8, attributes={"height": 16})
    (number,) = Encoder.of([layer]).encode([layer]).id
    assert number == 897902089862


@pytest.mark.parametrize(
    "other",
    [
        conv(out=8, attributes={"height": 32}),
        conv(out=8, attributes={"height": 16, "stride": 1}),
        conv(out=9, attributes={"height": 16}),
        conv(in_=8, attributes={"height": 16}),
        conv(name="conv2", out=8, attributes={"height": 16}),
    ],
)
def test_attributes_kind_and_widths_make_a_layer_another_one(other: Layer) -> None:
    layer = conv(out=8, attributes={"height": 16})
    assert layer.identity != other.identity
    encoder = Encoder.of([layer, other])
    one, two = encoder.encode([layer, other]).id
    assert one != two
    assert len(distinct([[layer, other]])[0]) == 2


def test_the_order_of_attributes_and_a_layers_name_do_not() -> None:
    one = Layer("a", LayerKind("k", Role.HIDDEN, "conv", {"a": 1, "b": 2}), Widths({"out": 3}))
    two = Layer("b", LayerKind("k", Role.HIDDEN, "conv", {"b": 2, "a": 1}), Widths({"out": 3}))
    assert one.identity == two.identity
    found, counts = distinct([[one, two]])
    assert [layer.identity for layer in found] == [one.identity]
    assert counts.tolist() == [[2.0]]


@pytest.mark.parametrize("order", [1, -1])
def test_a_layer_that_one_row_counted_is_counted(order: int) -> None:
    counted, not_counted = conv(out=8), conv(out=8, known=Features())
    found, counts = distinct([[counted], [not_counted]][::order])
    assert found == [counted]
    assert counts.tolist() == [[1.0], [1.0]]


def test_an_operation_is_counted_throughout_or_not_at_all() -> None:
    bare, counted, linear = conv(known=Features(), out=8), conv(out=9), plain_layer(LAST, in_=3)
    encoder = Encoder.of([bare, counted, STEP])
    plain = [0, 1.0, 0, 0, 0, 9.0, 9.0, 0, 0]
    assert encoder.encode([counted]).features.tolist() == [plain]
    assert encoder.covers(bare)
    assert encoder.covers(counted)
    assert not encoder.covers(linear)
    everything = Encoder.of([conv(out=8), counted, STEP])
    assert everything.encode([counted, STEP]).features.tolist() == [
        features(counted),
        features(STEP),
    ]
    assert not everything.covers(bare)
    assert not everything.covers(linear)
    assert everything.covers(conv(name="new", out=3))


def test_nothing_is_said_of_an_operation_if_no_other_was_counted() -> None:
    encoder = Encoder.of([conv(known=Features(), out=8), STEP])
    new = Layer("new", LayerKind("new", Role.HIDDEN, "linear"), Widths({"out": 4}), KNOWN)
    assert not encoder.covers(new)
    assert Encoder.of([conv(out=8), STEP]).covers(new)


def test_a_kind_has_the_operation_that_it_was_measured_with() -> None:
    measured = conv(out=8)
    (other,) = [Layer("x", LayerKind("conv", Role.HIDDEN, "conv2d"), Widths({"out": 8}), KNOWN)]
    encoder = Encoder.of([measured, STEP])
    assert encoder.operation(other) == "conv"
    np.testing.assert_array_equal(encoder.encode([other]).op, encoder.encode([measured]).op)


def test_attributes_may_be_lists() -> None:
    layer = conv(out=8, attributes={"kernel": [3, 3]})
    assert distinct([[layer, layer]])[1].tolist() == [[2.0]]


def test_distinct_layers_are_counted_network_by_network() -> None:
    first, last = plain_layer(FIRST, out=4), plain_layer(LAST, in_=4)
    hidden, twice = (plain_layer(HIDDEN, n, in_=4, out=4) for n in (1, 2))
    found, counts = distinct([[first, hidden, last], [first, twice, hidden, last], [last]])
    assert found == [first, hidden, last]
    assert counts.tolist() == [[1, 1, 1], [1, 3, 1], [0, 0, 1]]


def test_values_of_attributes_that_some_layers_have_are_traits() -> None:
    adam, sgd = (conv(name=o, attributes={"opt": o, "batch": 8}, out=8) for o in ("adam", "sgd"))
    encoder = Encoder.of([adam, sgd, STEP])
    assert encoder.traits == (("opt", "'adam'"), ("opt", "'sgd'"))  # all have the same batch
    assert encoder.encode([sgd, STEP]).traits.tolist() == [[0, 1], [0, 0]]


def test_attributes_of_many_values_are_coordinates_only() -> None:
    layers = [conv(name=f"b{b}", attributes={"batch": b}, out=8) for b in range(1, 40)]
    assert Encoder.of(layers).traits == ()
