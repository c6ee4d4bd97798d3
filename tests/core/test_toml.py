"""TOML of others is parsed or refused in a line, soon."""

from __future__ import annotations

import pytest

from ampere.core.boundary.toml import parse_toml
from ampere.errors import DataError


def test_tables_are_read() -> None:
    assert parse_toml('a = "x"\n[[b]]\nc = 1.5') == {"a": "x", "b": [{"c": 1.5}]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = 1\nb = ", "not TOML (Invalid value (at"),
        ("a = 1\na = 2\nb = 3", "not TOML (Cannot overwrite a value (at line 2"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "9" * 10_000, "thousands of digits"),
        ("a." * 500_000 + "a = 1", "more than 200 dots"),  # quadratic in the parser itself
    ],
)
def test_what_is_no_toml_is_said(text: str, says: str) -> None:
    with pytest.raises(DataError) as refusal:
        parse_toml(text)
    assert says in str(refusal.value)
