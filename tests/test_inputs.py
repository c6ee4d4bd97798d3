"""Texts that say what a model is fed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import ModelError
from ampere.inputs import InputSpec, parse_input

shapes = st.lists(st.integers(1, 10**6), min_size=1, max_size=5).map(tuple)
specs = st.builds(InputSpec, shapes) | st.builds(
    InputSpec, shapes, st.just("int64"), st.none() | st.integers(1, 10**6)
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("3x32x32", InputSpec((3, 32, 32))),
        (" 7 ", InputSpec((7,))),
        ("9x128:float32", InputSpec((9, 128))),
        ("128:int64", InputSpec((128,), "int64")),
        ("128:int64<1000", InputSpec((128,), "int64", 1000)),
    ],
)
def test_reads_sizes_type_and_limit(text: str, spec: InputSpec) -> None:
    assert parse_input(text) == spec


def test_writes_what_a_user_would() -> None:
    assert str(InputSpec((3, 32, 32))) == "3x32x32"
    assert str(InputSpec((128,), "int64", 1000)) == "128:int64<1000"


@given(specs)
def test_text_round_trips(spec: InputSpec) -> None:
    assert parse_input(str(spec)) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "3x",
        "3,32,32",
        "-3x4",
        "0x4",
        "3.5",
        "3x32x32:",
        "3:float16",
        "3:float32<5",
        "3:int64<0",
        "3:int64<",
        "3<5",
        "9" * 5000,
        "٣x٣",
    ],
)
def test_bad_text_is_one_line_with_an_example(text: str) -> None:
    with pytest.raises(ModelError, match=r"e\.g\. 3x32x32") as caught:
        parse_input(text)
    assert "\n" not in str(caught.value)


def test_a_spec_cannot_be_made_wrong() -> None:
    with pytest.raises(ModelError):
        InputSpec(())
    with pytest.raises(ModelError):
        InputSpec((3,), "float32", 10)
