"""Questions: models weigh alike, lines by where the joules are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.acquisition.questions import Question, Questions
from ampere.estimators.encoding.contexts import depth_context
from ampere.estimators.encoding.encoder import STEP
from fakes import HIDDEN, LAST, plain_layer, plain_model

models = st.lists(
    st.lists(st.integers(1, 6), min_size=1, max_size=4).map(lambda each: plain_model(*each)),
    min_size=1,
    max_size=4,
)


@given(models, models, st.integers(0, 10_000))
def test_weights_of_models_and_of_lines_are_one_in_all(
    asked: list[tuple], divided: list[tuple], seed: int
) -> None:
    questions = Questions.about(asked, divided)
    costs = np.random.default_rng(seed).lognormal(0.0, 3.0, len(questions.all))
    weights = questions.weights(costs)
    many = len(questions.models)
    assert (weights > 0).all()
    assert weights[:many] == pytest.approx(1 / many)
    assert weights[many:].sum() == pytest.approx(1.0)
    assert len(questions.lines) == len({layer.identity for each in divided for layer in each})


def test_a_line_weighs_its_share_of_its_models() -> None:
    block, head, other = (
        plain_layer(HIDDEN, 3, in_=8, out=8),
        plain_layer(LAST, in_=8),
        plain_layer(LAST, in_=4),
    )
    questions = Questions.about([[head]], [[block, head], [other]])
    # Three blocks of 3 J and a head of 1 J; a model of 7 J that is one layer.
    _, *lines = questions.weights(np.array([5.0, 3.0, 1.0, 7.0]))
    assert lines == pytest.approx([0.9 / 2, 0.1 / 2, 1 / 2])


def test_a_line_is_the_layer_alone_and_a_model_a_whole_step() -> None:
    deep = plain_model(*range(1, 12))
    block, head = plain_layer(HIDDEN, 3, in_=8, out=8), plain_layer(LAST, in_=8)
    questions = Questions.about([deep], [[block, head]])
    assert questions.models == (Question((*deep, STEP), depth_context(deep)),)
    assert questions.models[0].depth > 0
    once = plain_layer(HIDDEN, 1, in_=8, out=8)
    # No network tells the last layer from a step: each has one of both.
    assert questions.lines == (Question((once,), 0.0), Question((head, STEP), 0.0))


def test_without_divided_models_there_are_no_lines() -> None:
    questions = Questions.about([plain_model(4)] * 4)
    assert questions.lines == ()
    assert questions.weights(np.ones(4)) == pytest.approx(0.25)
