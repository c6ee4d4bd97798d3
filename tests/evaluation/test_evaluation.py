"""An evaluation: errors, biases and coverage of made-up models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.evaluation.evaluation import Evaluation, ModelResult
from ampere.meters.base import Provenance


def result(first: float, second: float, **said: float) -> ModelResult:
    middle = (first + second) / 2
    return ModelResult("m", middle, 1.0, first, second, said, (0.9 * middle, 1.1 * middle), 1.0)


def evaluation(*results: ModelResult) -> Evaluation:
    return Evaluation(results, (), 10, 5.0, "somewhere", Provenance.SIMULATED, 1.0)


def test_errors_are_relative_to_the_mean_of_both_and_the_floor_to_the_second() -> None:
    found = evaluation(result(1.0, 1.0, paper=1.1), result(2.0, 2.0, paper=1.8))
    assert found.mape("paper") == pytest.approx(10.0)
    assert found.bias("paper") == pytest.approx(0.0)
    assert found.mape("repeat") == 0.0
    assert evaluation(result(1.1, 1.0)).mape("repeat") == pytest.approx(10.0)


def test_bias_by_size_goes_from_small_to_large() -> None:
    results = [result(j, j, paper=j + 0.3) for j in (3.0, 1.0, 2.0)]
    assert evaluation(*results).bias_by_size("paper") == pytest.approx([30.0, 15.0, 10.0])


def test_coverage_is_the_share_inside_the_interval() -> None:
    outside = ModelResult("m", 1.0, 1.0, 1.0, 1.0, {}, (2.0, 3.0), 1.0)
    assert evaluation(result(1.0, 1.0), outside).coverage_90 == 0.5


def test_a_method_that_said_nothing_has_no_error() -> None:
    found = evaluation(result(1.0, 1.0, paper=1.0))
    assert found.mape("neuralpower") is None
    assert "neuralpower" not in found.to_json()["mape"]


def test_a_model_that_is_not_covered_has_no_interval() -> None:
    uncovered = replace(result(1.0, 1.0), interval_j=None)
    assert not uncovered.inside
    assert uncovered.to_json()["interval_j"] is None
    assert evaluation(result(1.0, 1.0), uncovered).coverage_90 == 0.5
