"""Fields: whatever a stranger's object holds, a value within bounds comes out, or one line."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.fields import LARGE, Fields, check_plain, parse_json, shown
from ampere.errors import DataError, FaultyReading

numbers = st.floats() | st.integers() | st.integers(-(10**400), 10**400)
anything = st.recursive(
    st.none() | st.booleans() | numbers | st.text() | st.characters(categories=["Cs"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def refusal(read: Any) -> str:
    with pytest.raises(DataError) as caught:
        read()
    text = str(caught.value)
    assert "\n" not in text and len(text) < 300
    text.encode()
    return text


@given(anything)
def test_a_number_is_finite_and_within_its_bounds_or_refused(value: Any) -> None:
    fields = Fields({"x": value}, "row")
    try:
        number = fields.number("x", least=0.0, most=10.0)
    except DataError as error:
        assert str(error).startswith("row.x ")
    else:
        assert 0.0 <= number <= 10.0 and not isinstance(value, bool)


@given(anything)
def test_a_whole_number_is_whole(value: Any) -> None:
    try:
        number = Fields({"x": value}).whole("x", least=1, most=9)
    except DataError:
        assert isinstance(value, bool) or value not in range(1, 10)
    else:
        assert number in range(1, 10) and type(number) is int


@given(anything)
def test_every_refusal_is_one_line(value: Any) -> None:
    fields = Fields({"x": value}, "row")
    reads = (
        lambda: fields.number("x"),
        lambda: fields.text("x", most=3),
        lambda: fields.flag("x"),
        lambda: fields.choice("x", ["a", "b"]),
        lambda: fields.inner("x").names(),
        lambda: fields.items("x", least=1, most=2),
        lambda: fields.numbers("x", above=0.0),
        lambda: fields.wholes("x"),
        lambda: fields.texts("x"),
        lambda: fields.plain("x", depth=2),
        lambda: Fields(value),
    )
    for read in reads:
        try:
            read()
        except DataError as error:
            assert "\n" not in str(error)


@given(anything)
def test_what_is_plain_can_be_written_as_strict_json(value: Any) -> None:
    try:
        check_plain(value, "x")
    except DataError:
        return
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    text.encode()
    assert parse_json(text) == value


def test_places_are_named() -> None:
    fields = Fields({"layers": [{"count": 2.9}], "idle_w": -1}, "p.ampere line 3:")
    ((place, layer),) = fields.items("layers")
    said = refusal(lambda: Fields(layer, place).whole("count", least=1, most=9))
    assert said == "p.ampere line 3: layers[0].count must be a whole number from 1 to 9, not 2.9"
    assert "line 3: idle_w must be a number from 0 to" in refusal(
        lambda: fields.number("idle_w", least=0.0)
    )
    assert refusal(lambda: fields.text("kind")) == (
        "p.ampere line 3: kind is missing: it must be a text"
    )


def test_null_is_left_out() -> None:
    fields = Fields({"a": None})
    assert fields.number("a", 3.0) == 3.0
    assert fields.whole("a", None) is None
    assert fields.text("a", "b") == "b"
    assert fields.flag("a", True) and not fields.flag("a")
    assert fields.choice("a", ["x"], "x") == "x"
    assert (fields.items("a"), fields.wholes("a"), fields.inner("a", {}).names()) == ([], {}, [])
    assert "a" not in fields
    assert "missing" in refusal(lambda: fields.inner("a"))


def test_a_number_beyond_its_bounds_has_an_error_of_its_own() -> None:
    for value in (0.0, -1.0, math.inf, math.nan, 2 * LARGE):
        with pytest.raises(FaultyReading, match="x must be a number above 0"):
            Fields({"x": value}).number("x", above=0.0, beyond=FaultyReading)
    with pytest.raises(DataError) as caught:
        Fields({"x": "1"}).number("x", above=0.0, beyond=FaultyReading)
    assert not isinstance(caught.value, FaultyReading)


@pytest.mark.parametrize("value", [10**5000, "x" * 10**6, [[[]]] * 10**4], ids=type)
def test_whatever_is_quoted_is_short(value: Any) -> None:
    assert len(shown(value)) <= 80


@pytest.mark.parametrize("text", ["[" * 10**5, "1" * 10**5, '{"a":' * 10**5], ids=len)
def test_absurd_json_is_refused(text: str) -> None:
    assert "not JSON" in refusal(lambda: parse_json(text))


def test_an_object_of_texts_has_a_bound_of_its_own() -> None:
    fields = Fields({"a": {str(number): "x" for number in range(3)}})
    assert len(fields.texts("a", most=3)) == 3
    assert "more than 2" in refusal(lambda: fields.texts("a", most=2))
