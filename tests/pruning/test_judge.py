"""Judging: the best score wins, finalists alone are trained, by data or by the user's functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ampere.core.inputs import Inputs, parse_inputs
from ampere.core.training import Training
from ampere.datasets.samples import Dataset, Samples
from ampere.errors import DataError
from ampere.pruning import judge as judge_module
from ampere.pruning.judge import Candidate, Judge, Judging, make_judge
from ampere.pytorch.pruning.slimmer import Slim


@dataclass
class FakeSlimmer:
    """Makes models that know their widths, and remembers which."""

    input: str = "2"
    built: list[int] = field(default_factory=list)
    training: Training = field(default_factory=lambda: Training(4, "momentum"))

    @property
    def inputs(self) -> Inputs:
        return parse_inputs(self.input)

    def slim(self, widths: Mapping[str, int]) -> Slim:
        self.built.append(widths["a.out"])
        return Slim(Guess(widths["a.out"]), (), {}, {}, rebuilt=False)


class Guess(nn.Module):
    """Says how likely the second class is, whatever it is given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.bias = nn.Parameter(torch.tensor(width / 10))

    def forward(self, x: Tensor) -> Tensor:
        return 0.0 * x.sum(1) + self.bias


def choose(judge: Judge, *widths: int, slimmer: Any = None) -> Candidate:
    made: Any = slimmer or FakeSlimmer()
    return judge.choose(made, [{"a.out": width} for width in widths])


def judge_by(slimmer: Any = None, **given: Any) -> Judge:
    made: Any = slimmer or FakeSlimmer()
    return make_judge(Judging(**given), made, seed=0)


def ones(shape: tuple[int, ...] = (2,), name: str = "ones") -> Dataset:
    """Everything is of the second class."""
    inputs = np.ones((12, *shape), dtype=np.float32)
    samples = Samples(np.ones(12, dtype=np.int64), lambda at: inputs[at])
    return Dataset(name, samples, samples, samples, 2, shape)


def width_of(model: nn.Module) -> float:
    assert isinstance(model, Guess)
    return model.width


def test_without_a_score_the_first_candidate_is_taken() -> None:
    slimmer, judge = FakeSlimmer(), judge_by()
    assert (judge.candidates, judge.finalists) == (1, 0)
    assert choose(judge, 5, 9, slimmer=slimmer).widths == {"a.out": 5}


def test_the_best_score_wins() -> None:
    slimmer, judge = FakeSlimmer(), judge_by(score=width_of)
    assert (judge.candidates, judge.finalists) == (judge_module.SCORED, 0)
    chosen = choose(judge, 5, 9, 7, slimmer=slimmer)
    assert chosen.widths == {"a.out": 9}
    assert width_of(chosen.slim.model) == 9
    assert slimmer.built == [5, 9, 7]


def test_equal_scores_leave_the_order_of_the_search() -> None:
    chosen = choose(judge_by(score=lambda model: 1.0), 5, 9)
    assert chosen.widths == {"a.out": 5}


@pytest.mark.parametrize("order", [(5, 9, 7), (9, 5, 7), (7, 9, 5)])
def test_what_has_no_score_never_wins(order: tuple[int, ...]) -> None:
    judge = judge_by(score=lambda model: math.nan if width_of(model) == 9 else width_of(model))
    assert choose(judge, *order).widths == {"a.out": 7}


def test_only_finalists_are_trained_and_then_judged_again() -> None:
    trained: list[int] = []

    def train(model: nn.Module) -> None:
        assert isinstance(model, Guess)
        trained.append(model.width)
        with torch.no_grad():
            model.bias.fill_(10.0 - model.width)  # the second best learns more

    judge = judge_by(score=lambda model: model.get_parameter("bias").item(), fine_tune=train)
    assert judge.finalists == judge_module.FINALISTS == 2
    chosen = choose(judge, 3, 9, 8, 1)
    assert trained == [9, 8]
    assert chosen.widths == {"a.out": 8}
    assert chosen.slim.model.get_parameter("bias") == 2.0


def test_without_a_score_one_is_trained() -> None:
    trained: list[nn.Module] = []
    judge = judge_by(fine_tune=trained.append)
    assert (judge.candidates, judge.finalists) == (1, 1)
    chosen = choose(judge, 4)
    assert trained == [chosen.slim.model]


def test_one_candidate_is_not_scored() -> None:
    def refuse(model: nn.Module) -> float:
        raise AssertionError("there is nothing to choose")

    assert choose(judge_by(score=refuse), 4).widths == {"a.out": 4}


def test_data_judge_by_their_loss() -> None:
    judge = judge_by(data=ones())
    assert judge.score is not None and judge.fine_tune is None
    assert judge.score(Guess(10)) == pytest.approx(-math.log1p(math.exp(-1.0)))
    assert choose(judge, 1, 8, 3).widths == {"a.out": 8}


def test_data_train_for_as_many_steps_as_were_asked_for() -> None:
    judge = judge_by(data=ones(), fine_tune_steps=3)
    assert judge.finalists == 2
    model = Guess(1)
    steps: list[bool] = []
    model.register_forward_pre_hook(lambda module, args: steps.append(module.training))
    assert judge.fine_tune is not None
    judge.fine_tune(model)
    assert steps == [True] * 3
    assert model.bias.item() > 0.1


def test_own_functions_go_before_data() -> None:
    def train(model: nn.Module) -> None:
        pass

    judge = judge_by(data=ones(), score=width_of, fine_tune=train, fine_tune_steps=3)
    assert (judge.score, judge.fine_tune) == (width_of, train)


def test_scoring_takes_statistics_anew() -> None:
    norm = nn.BatchNorm1d(2)
    norm.running_mean = torch.full((2,), 100.0)
    model = nn.Sequential(norm, Guess(10))
    judge = judge_by(data=ones())
    assert judge.score is not None
    judge.score(model)
    assert norm.running_mean.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"fine_tune_steps": 5}, "fine-tuning needs data: give some, or your own fine_tune"),
        ({"fine_tune_steps": -1, "data": ones()}, "fine-tuning of -1 steps cannot be"),
        ({"data": "mnist"}, "there are no data 'mnist'"),
        ({"data": ones((3,), "mine")}, r"mine are of shape \(3,\), the model takes \(2,\)"),
        ({"data": ones(), "slimmer": FakeSlimmer("2, mask=2")}, "for models with one input"),
    ],
)
def test_what_cannot_be_judged(given: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        judge_by(**given)
    assert "\n" not in str(caught.value)
