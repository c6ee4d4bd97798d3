"""What a model is fed: as texts, as shapes, as example batches."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.example_inputs import as_inputs
from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.errors import ModelError
from ampere.pytorch.models import read
from ampere.pytorch.runtime.trainer import synthetic_inputs

shapes = st.lists(st.integers(1, 10**6), min_size=1, max_size=5).map(tuple)
specs = st.builds(InputSpec, shapes, st.sampled_from(["float32", "bool"])) | st.builds(
    InputSpec, shapes, st.just("int64"), st.none() | st.integers(1, 10**6)
)
names = st.from_regex(r"[^\W\d]\w{0,8}", fullmatch=True).filter(str.isidentifier)
many = st.builds(
    Inputs,
    st.lists(specs, min_size=1, max_size=3).map(tuple),
    st.dictionaries(names, specs, max_size=3).map(lambda named: tuple(named.items())),
)

IMAGE, VECTOR = InputSpec((3, 8, 8)), InputSpec((5,))
IDS, MASK = InputSpec((16,), "int64", 100), InputSpec((16,), "bool")


def one(spec: InputSpec) -> Inputs:
    return Inputs((spec,))


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("3x32x32", one(InputSpec((3, 32, 32)))),
        (" 7 ", one(InputSpec((7,)))),
        ("9x128:float32", one(InputSpec((9, 128)))),
        ("128:int64", one(InputSpec((128,), "int64"))),
        ("128:int64<1000", one(InputSpec((128,), "int64", 1000))),
        ("16:int64<100, 16:int64<100", Inputs((IDS, IDS))),
        ("16:int64<100,16:bool", Inputs((IDS, MASK))),
        ("3x8x8, features=5", Inputs((IMAGE,), (("features", VECTOR),))),
        ("ids=16:int64<100, mask = 16:bool", Inputs((), (("ids", IDS), ("mask", MASK)))),
        ("features=5, 3x8x8", Inputs((IMAGE,), (("features", VECTOR),))),
        ("größe=5", Inputs((), (("größe", VECTOR),))),
    ],
)
def test_reads_sizes_types_limits_and_names(text: str, inputs: Inputs) -> None:
    assert parse_inputs(text) == inputs


def test_writes_what_a_user_would() -> None:
    assert str(InputSpec((3, 32, 32))) == "3x32x32"
    assert str(InputSpec((128,), "int64", 1000)) == "128:int64<1000"
    assert str(Inputs((IMAGE, VECTOR), (("mask", MASK),))) == "3x8x8, 5, mask=16:bool"


@given(many)
def test_text_round_trips(inputs: Inputs) -> None:
    assert parse_inputs(str(inputs)) == inputs


@given(many)
def test_all_inputs_in_order_those_by_position_first(inputs: Inputs) -> None:
    assert list(inputs) == [*inputs.positional, *(spec for _, spec in inputs.named)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "3x",
        "3x32x32,",
        ",3",
        "3,,3",
        "3;32",
        "-3x4",
        "0x4",
        "3.5",
        "3x32x32:",
        "3:float16",
        "3:float32<5",
        "3:bool<2",
        "3:int64<0",
        "3:int64<",
        "3<5",
        "=3",
        "a=",
        "a b=3",
        "1a=3",
        "a=b=3",
        "9" * 5000,
        "٣x٣",
    ],
)
def test_bad_text_is_one_line_with_an_example(text: str) -> None:
    with pytest.raises(ModelError, match=r"e\.g\. 3x32x32") as caught:
        parse_inputs(text)
    assert "\n" not in str(caught.value)


def test_inputs_cannot_be_made_wrong() -> None:
    with pytest.raises(ModelError):
        InputSpec(())
    with pytest.raises(ModelError):
        InputSpec((3,), "float32", 10)
    with pytest.raises(ModelError, match="at least one input"):
        Inputs(())
    with pytest.raises(ModelError, match="'mask' is there twice"):
        parse_inputs("mask=3, mask=4")


# --- from Python ---------------------------------------------------------------------------------

image, vector = torch.zeros(4, 3, 8, 8), torch.zeros(4, 5)
ids, mask = torch.full((4, 16), 99), torch.zeros(4, 16, dtype=torch.bool)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Inputs((IMAGE, VECTOR)), "3x8x8, 5"),
        (IMAGE, "3x8x8"),
        ("3x8x8, mask=16:bool", "3x8x8, mask=16:bool"),
        ((3, 8, 8), "3x8x8"),
        ([5], "5"),
        (5, "5"),
        (torch.Size([3, 8, 8]), "3x8x8"),
        (tuple(np.array([3, 8, 8])), "3x8x8"),
        (image, "3x8x8"),
        (image.double(), "3x8x8"),
        (vector.half(), "5"),
        (ids, "16:int64<100"),
        (ids.int(), "16:int64<100"),
        (ids.byte(), "16:int64<100"),
        (ids.to("meta"), "16:int64"),
        (mask, "16:bool"),
        (np.zeros((4, 3, 8, 8), np.float32), "3x8x8"),  # a tensor of any framework
        (np.full((4, 16), 99), "16:int64<100"),
        (np.zeros((4, 16), bool), "16:bool"),
        ((image, vector), "3x8x8, 5"),
        ([ids, mask], "16:int64<100, 16:bool"),
        (((3, 8, 8), (5,)), "3x8x8, 5"),
        ([(3, 8, 8), 5, "16:bool", IDS], "3x8x8, 5, 16:bool, 16:int64<100"),
        ({"ids": ids, "mask": mask}, "ids=16:int64<100, mask=16:bool"),
        (UserDict(ids=ids), "ids=16:int64<100"),
        (
            {"ids": "16:int64<100", "features": (3, 5), "x": 5},
            "ids=16:int64<100, features=3x5, x=5",
        ),
        (((image, vector), {"mask": mask}), "3x8x8, 5, mask=16:bool"),
        ((image, {"mask": mask}), "3x8x8, mask=16:bool"),
        (((3, 8, 8), {"mask": "16:bool"}), "3x8x8, mask=16:bool"),
        (("3x8x8", {"mask": mask}), "3x8x8, mask=16:bool"),
        (((), {"mask": mask}), "mask=16:bool"),
        ((image, {}), "3x8x8"),
    ],
)
def test_python_says_what_a_text_does(given: Any, text: str) -> None:
    assert str(as_inputs(given)) == text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "at least one input"),
        ({}, "at least one input"),
        (((), {}), "at least one input"),
        (0, "at least 1"),
        ((3, 0), "at least 1"),
        ((3, 8.5), "an object of type float"),
        ((3, True), "an object of type bool"),
        (None, "not None"),
        (np.zeros((4, 3), complex), "an example input is complex128"),
        (object(), "pass e.g. (3, 32, 32)"),
        ([image, None], "not None"),
        ({"mask": [mask]}, "an object of type list"),
        ({"a b": mask}, "'a b' cannot be the name"),
        ({3: mask}, "3 cannot be the name"),
        ({"ids": "sixteen"}, "'sixteen' is no input"),
        ({"ids": "3, 4"}, "'3, 4' is no input"),
        (torch.tensor(3.0), "put the batch first"),
        (torch.zeros(4), "put the batch first"),
        (torch.zeros(0, 3), "holds no sample"),
        (torch.zeros(4, 0), "holds no sample"),
        (image.to(torch.complex64), "complex64: use real numbers"),
        (ids - 100, "ids below 0"),
        ((image, vector[:2]), "hold 2 and 4 samples"),
        ((image, {"mask": mask[:3]}), "hold 3 and 4 samples"),
    ],
)
def test_what_is_no_input_is_one_line(given: Any, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        as_inputs(given)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_is_read_from_any_of_them() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    by_text = read(model, "5")
    for input in (5, (5,), vector, (vector,), {"input": vector}, VECTOR, Inputs((VECTOR,))):
        assert read(model, input) == by_text


# --- data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_synthetic_data_is_what_the_inputs_say(device: str) -> None:
    inputs = parse_inputs("3x8x8, 16:int64<3, plain=2:int64, mask=16x16:bool")
    args, kwargs = synthetic_inputs(inputs, 6, device)
    image, ids = args
    assert list(kwargs) == ["plain", "mask"]
    assert (image.shape, image.dtype) == ((6, 3, 8, 8), torch.float32)
    assert (ids.shape, ids.dtype) == ((6, 16), torch.int64)
    assert (kwargs["mask"].shape, kwargs["mask"].dtype) == ((6, 16, 16), torch.bool)
    if device == "cpu":
        assert set(ids.flatten().tolist()) == {0, 1, 2}
        assert 0.4 < kwargs["mask"].float().mean() < 0.6
