"""Losses: which form is taken of what comes out, with targets that fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.programs.gradients import reach_of
from ampere.programs.losses import counted, parts_of_loss, seeds
from ampere.programs.program import Program
from ampere.programs.wiring import program_of

from .networks import layers_of


def program(leaving: int, loss: Any = "auto") -> Program:
    return program_of(
        layers_of(
            nn.Sequential(nn.Linear(6, 5), nn.Linear(5, leaving)), "6", Training(4, loss=loss)
        )
    )


def parts(shape: tuple[int, ...], loss: Any = "auto") -> Any:
    found = replace(program(3), training=Training(4, loss=loss))
    reach = reach_of(found)
    (value,) = counted(found, reach)
    return parts_of_loss(found, reach, {value: shape}, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("shape", "loss", "form"),
    [
        ((4, 3), "auto", "cross_entropy"),
        ((4, 7, 3), "auto", "cross_entropy"),
        ((4, 3, 5, 5), "auto", "of_pixels"),
        ((4, 1), "auto", "mse"),
        ((4,), "auto", "mse"),
        ((), "auto", "itself"),
        ((4, 3), "bce", "bce"),
        ((4, 3), "mse", "mse"),
        ((4, 3), "sum", "sum"),
    ],
)
def test_the_form_follows_the_shape(shape: tuple[int, ...], loss: str, form: str) -> None:
    (part,) = parts(shape, loss)
    assert part.form == form


def test_labels_are_below_the_number_of_classes() -> None:
    (rows,) = parts((50, 7, 3))
    assert rows.target.shape == (350,) and set(rows.target) == {0, 1, 2}
    (pixels,) = parts((4, 3, 5, 6))
    assert pixels.target.shape == (4, 5, 6) and set(pixels.target.reshape(-1)) == {0, 1, 2}


def test_a_loss_of_torch_and_scores_without_classes_are_refused() -> None:
    with pytest.raises(ModelError, match="is a function of torch"):
        parts((4, 3), "mine.py:loss")
    with pytest.raises(ModelError, match="needs scores of classes"):
        parts((4,), "cross_entropy")


def test_first_gradients_are_as_small_as_those_of_a_mean() -> None:
    (seed,) = seeds([(40, 50)], np.random.default_rng(0))
    assert seed.shape == (40, 50) and seed.std() == pytest.approx(1 / 2000, rel=0.1)
