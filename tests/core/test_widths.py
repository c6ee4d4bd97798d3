"""Widths: a mapping whose order does not matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.program.widths import Widths
from structures import names, numbers


@given(st.dictionaries(names, numbers))
def test_widths_are_a_mapping_whose_order_does_not_matter(sizes: dict[str, int]) -> None:
    backwards = Widths(list(sizes.items())[::-1])
    assert backwards == Widths(sizes) == sizes
    assert hash(backwards) == hash(Widths(sizes))
    assert list(backwards) == sorted(sizes)


def test_a_width_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        Widths({"in": 3})["out"]
