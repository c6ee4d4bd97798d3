"""Terms of calls: read back from JSON, and as numbers where widths are known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from ampere.core.program.sizes import Size, SizePower
from ampere.core.program.terms import (
    DType,
    InputDevice,
    MemoryFormat,
    Term,
    ValueRef,
    fill,
    term_from_json,
    term_to_json,
)
from ampere.errors import DataError
from structures import terms, through_json


@given(terms)
def test_terms_are_read_back(term: Any) -> None:
    assert term_from_json(through_json(term_to_json(term))) == term


@pytest.mark.parametrize(
    ("term", "row"),
    [
        ((3, (None, "same")), [3, [None, "same"]]),
        ([0, 2], {"list": [0, 2]}),
        ({"out": ValueRef(2)}, {"dict": {"out": {"value": 2}}}),
        (slice(None, Size("in", 1, 2)), {"slice": [None, {"size": "in/2"}, None]}),
        (..., {"ellipsis": True}),
        (float("-inf"), {"float": "-inf"}),
        (Size("out", 4), {"size": "4*out"}),
        (SizePower(Size("out"), -0.5), {"power": ["out", -0.5]}),
        (ValueRef(3, (0, "state")), {"value": [3, 0, "state"]}),
        (DType("int64"), {"dtype": "int64"}),
        (MemoryFormat("channels_last"), {"memory_format": "channels_last"}),
        (InputDevice(), {"device": "input"}),
    ],
)
def test_terms_have_the_text_that_journals_and_workers_know(term: Term, row: Any) -> None:
    assert term_to_json(term) == row
    assert term_from_json(row) == term


@pytest.mark.parametrize("row", [{}, {"code": "1"}, {"size": "in", "value": 0}])
def test_what_is_no_term_is_refused(row: Any) -> None:
    with pytest.raises(DataError, match="not a term of a call"):
        term_from_json([row])


def test_sizes_are_filled_in_wherever_they_stand() -> None:
    term: Term = (slice(0, Size("in", 2)), [SizePower(Size("in"), 2.0)], {"size": Size("in")}, "in")
    assert fill(term, {"in": 3}) == (slice(0, 6), [9.0], {"size": 3}, "in")


def test_values_move_where_calls_are_put_before() -> None:
    assert ValueRef(2, (1,)).moved(3) == ValueRef(5, (1,))
