"""Choices: widths that meet in one tensor are one choice, and move together."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from ampere.core.choices import Choice, at_widths, choices, resample, resize, smallest
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.sizes import Shape, Size
from ampere.core.program.structure import Port, Structure
from ampere.core.program.widths import Widths
from ampere.errors import ModelError


def layer(
    name: str, role: Role, entering: Shape, leaving: Shape, multiples: dict[str, int], **widths: int
) -> Layer:
    structure = Structure((Port(entering),), (Port(leaving),), (), multiples=multiples)
    kind = LayerKind(name, role, name, {}, structure)
    return Layer(name, kind, Widths(widths), Features(1.0), params=5)


def network() -> tuple[Layer, ...]:
    """An image, two convolutions, and a head that flattens 2×2 positions of each channel."""
    return (
        layer("a", Role.FIRST, (3, 8), (Size("out"), 8), {"out": 2}, out=8),
        layer("b", Role.HIDDEN, (Size("in"), 8), (Size("out"), 4), {"in": 1, "out": 1},
              **{"in": 8, "out": 6}),
        layer("c", Role.LAST, (Size("in", 1, 4), 4), (10,), {"in": 4}, **{"in": 24}),
    )  # fmt: skip


def test_what_one_layer_delivers_and_the_next_takes_is_one_choice() -> None:
    first, second = choices(network())
    assert first == Choice(((0, "out"), (1, "in")), (Fraction(1), Fraction(1)), 8, 2, False)
    assert second == Choice(((1, "out"), (2, "in")), (Fraction(1), Fraction(4)), 6, 1, False)
    assert second.at(5) == {(1, "out"): 5, (2, "in"): 20}


def test_tied_widths_follow_and_features_are_not_known_any_more() -> None:
    before = network()
    after = resize(before, {"b.out": 3})
    assert [dict(each.widths) for each in after] == [{"out": 8}, {"in": 8, "out": 3}, {"in": 12}]
    assert after[0] is before[0]
    assert (after[1].features, after[1].params) == (Features(), None)
    assert resize(before, {"c.in": 12}) == after


@pytest.mark.parametrize(
    ("widths", "told"),
    [
        ({"b.width": 3}, "no width 'b.width'"),
        ({"a.out": 5}, "a.out=5 must be a multiple of 2"),
        ({"b.in": 0}, "must be a multiple"),
        ({"a.out": 4, "b.in": 6}, "tied and cannot differ: a.out=4, b.in=6"),
    ],
)
def test_widths_that_cannot_be_are_refused(widths: dict[str, int], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        resize(network(), widths)


def test_a_width_that_meets_a_fixed_size_is_fixed() -> None:
    fixed = (
        layer("a", Role.FIRST, (3,), (Size("out"),), {"out": 1}, out=8),
        layer("b", Role.LAST, (8,), (10,), {}),
    )
    (choice,) = choices(fixed)
    assert choice.fixed
    with pytest.raises(ModelError, match="tied to a size that is fixed"):
        resize(fixed, {"a.out": 4})
    assert smallest(fixed) == fixed


def test_random_members_stay_between_the_smallest_and_the_original() -> None:
    least, most = smallest(network()), network()
    assert [dict(each.widths) for each in least] == [{"out": 2}, {"in": 2, "out": 1}, {"in": 4}]
    for seed in range(20):
        for low, drawn, high in zip(least, resample(most, random.Random(seed)), most, strict=True):
            for name, width in drawn.widths.items():
                assert low.widths[name] <= width <= high.widths[name]
                assert width % low.widths[name] == 0


def test_layers_whose_widths_stay_are_left_as_they_are() -> None:
    assert at_widths(network(), {(0, "out"): 8}) == network()
