"""Sizes that follow widths: written, read back, and as numbers at widths."""

from __future__ import annotations

import pytest
from hypothesis import given

from ampere.core.program.sizes import (
    Shape,
    Size,
    SizePower,
    shape_at,
    shape_from_json,
    shape_to_json,
    steps_to_meet,
)
from ampere.errors import ModelError
from structures import shapes, sizes, through_json


@given(sizes)
def test_sizes_are_read_back(size: Size) -> None:
    assert Size.parse(str(size)) == size


@given(shapes)
def test_shapes_are_read_back(shape: Shape) -> None:
    assert shape_from_json(through_json(shape_to_json(shape))) == shape


@pytest.mark.parametrize("text", ["in", "25*in", "out/4", "3*out/4"])
def test_sizes_as_people_write_them(text: str) -> None:
    assert str(Size.parse(text)) == text


def test_sizes_at_widths() -> None:
    assert Size("in", 25).at({"in": 6}) == 150
    assert Size("out", 3, 4).at({"out": 8}) == 6
    assert shape_at((Size("in"), 5, Size("in", 2)), {"in": 3}) == (3, 5, 6)
    with pytest.raises(ModelError, match="3\\*out/4 is not a whole size at out=6"):
        Size("out", 3, 4).at({"out": 6})


def test_powers_at_widths() -> None:
    assert SizePower(Size("in", 1, 4), -0.5).at({"in": 64}) == 0.25


def test_steps_rise_until_the_other_side_has_its_multiples() -> None:
    """What leaves as `out` enters as half of `in`, which must be a multiple of 6."""
    steps = steps_to_meet({"out": 2}, (Size("out"), 4), (Size("in", 1, 2), 4), {"in": 6})
    assert steps == {"out": 6}
    for out in range(6, 60, 6):
        assert 2 * out % 6 == 0
    assert steps_to_meet({"out": 2}, (Size("out"),), (8,), {}) == {"out": 2}
