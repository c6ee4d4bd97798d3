"""Durations are read as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.durations import parse_span, parse_time
from ampere.errors import DataError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90 s", 90), ("10min", 600), ("1 h 30 min", 5400), ("2 d", 172800), ("250 ms", 0.25)),
        *(("0", 0), (" 1.5h ", 5400), ("1h30min", 5400), (".5h", 1800)),
    ],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "h", "1 hour", "1h x", "-1h", "1,5h", "٣h", "1h-2h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is no time: write it as 90 s"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2h-4h", (7200, 14400)),
        ("0 - 1h 30min", (0, 5400)),
        ("8h–10h", (28800, 36000)),
        ("8h-", (28800, math.inf)),
    ],
)
def test_spans_are_read(text: str, span: tuple[float, float]) -> None:
    assert parse_span(text) == span


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_time, parse_span):
        try:
            parse(text)
        except DataError as error:
            assert "write it as" in str(error)
