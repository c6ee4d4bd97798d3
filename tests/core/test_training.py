"""Training settings: one class, in kinds' names and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.training import DTYPES, Training, stated_training, training_of
from ampere.errors import ModelError

settings = st.builds(
    Training,
    batch_size=st.integers(1, 512),
    optimizer=st.sampled_from(["sgd", "adam"]),
    loss=st.sampled_from(["auto", "mse", "own.py:loss"]),
    dtype=st.sampled_from([None, *DTYPES[1:]]),
    amp=st.booleans(),
)


def network(training: Training, end: Role = Role.LAST) -> list[Layer]:
    return [
        Layer(
            role.value, LayerKind(role.value, role, "linear", training.attributes(role)), Widths()
        )
        for role in (Role.FIRST, end)
    ]


@given(settings)
def test_layers_say_how_they_are_trained(training: Training) -> None:
    assert training_of(network(training)) == training
    cut_off = training_of(network(training, Role.HIDDEN))
    assert cut_off == training.but(loss="auto")


@given(settings)
def test_plain_data_and_back(training: Training) -> None:
    assert Training(**training.to_json()) == training


@pytest.mark.parametrize(
    ("training", "precision"),
    [
        (Training(), "float32"),
        (Training(dtype="float32"), "float32"),
        (Training(dtype="bfloat16"), "bfloat16"),
        (Training(amp=True), "float32+amp"),
    ],
)
def test_precision_as_it_stands_in_a_name(training: Training, precision: str) -> None:
    assert training.precision == precision


def test_what_is_usual_stays_out_of_attributes_and_files() -> None:
    assert Training().attributes(Role.LAST) == {"batch": 10, "optimizer": "sgd"}
    assert Training(loss="mse").attributes(Role.FIRST) == {"batch": 10, "optimizer": "sgd"}
    assert set(Training().to_json()) == {"batch_size", "optimizer", "loss"}


def test_what_is_not_given_stays() -> None:
    training = Training(8, "adam", "mse", "bfloat16", amp=True)
    assert training.but() == training.but(batch_size=None, amp=None) == training
    assert training.but(batch_size=3, amp=False) == Training(3, "adam", "mse", "bfloat16")


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"dtype": "int8"}])
def test_what_cannot_be_trained_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="use "):
        Training(**wrong)


def test_rows_of_others_need_not_say() -> None:
    rows = [Layer("a", LayerKind("a", Role.FIRST, "a"), Widths())]
    assert stated_training(rows) is None
    with pytest.raises(ModelError, match="does not say how it is trained"):
        training_of(rows)


@pytest.mark.parametrize("name", ["AdamW", "ADAMW", " adamw "])
def test_an_optimizer_is_itself_whatever_its_letters(name: str) -> None:
    assert Training(optimizer=name) == Training(optimizer="adamw")
