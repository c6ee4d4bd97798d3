"""Fits by calls: unseen models are sums of calls that were measured."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import pytest

import ampere
from ampere.core.layers import Features, Layer, LayerKind, Role, Work
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.encoding.contexts import calls_in, depth_context
from ampere.estimators.methods import fit_rows
from ampere.estimators.solution import rebuild, solution_of
from ampere.estimators.survey import SurveyFit, calls_of, fit_survey
from ampere.records.measurement import Measurement
from surveyed import drawn, joules, surveyed

UNSEEN = ("zoo:resnet", "zoo:cnn5", "zoo:transformer", "zoo:lstm")


@pytest.fixture(scope="module")
def fit() -> SurveyFit:
    rng = random.Random(0)
    return fit_survey([surveyed(layers, rng.gauss(1, 0.01)) for layers in drawn()])


@pytest.mark.parametrize("name", UNSEEN)
def test_models_that_were_never_measured(fit: SurveyFit, name: str) -> None:
    layers = ampere.read_layers(name, training=Training(8, "adamw"))
    said, truth = fit.predict(layers).total, joules(layers)
    assert said.energy_j == pytest.approx(truth, rel=0.25)
    assert abs(said.energy_j - truth) < 3 * said.energy_j_std


def test_lines_and_operations_are_the_total(fit: SurveyFit) -> None:
    said = fit.predict(ampere.read_layers("zoo:resnet"))
    total_j = said.total.energy_j
    assert sum(line.cost.energy_j for line in said.lines) == pytest.approx(total_j)
    step_j = said.lines[-1].cost.energy_j
    assert sum(share.cost.energy_j for share in said.shares) + step_j == pytest.approx(total_j)
    assert {"convolution", "normalisation", "update"} <= {share.operation for share in said.shares}


def test_what_was_never_called_is_borrowed_and_named(fit: SurveyFit) -> None:
    odd = Work("fft_fft", features=Features(0.0, 1e6, 0.0))
    kind = LayerKind("spectral", Role.HIDDEN, "spectral")
    layers = (*drawn()[0], Layer("spectral", kind, Widths(), Features(0.0, 1e6, 0.0), work=(odd,)))
    said, before = fit.predict(layers), fit.predict(drawn()[0])
    (share,) = [share for share in said.shares if share.operation == "fft_fft"]
    assert share.borrowed == 1.0 and share.cost.energy_j > 0
    assert [line.layer.name for line in said.lines if line.borrowed] == ["spectral"]
    assert said.total.energy_j > before.total.energy_j


def test_other_batches_and_optimisers_are_other_sizes_of_the_same_calls(fit: SurveyFit) -> None:
    for training in (Training(3, "sgd"), Training(24, "adam")):
        layers = ampere.read_layers("zoo:cnn5", training=training)
        assert fit.predict(layers).total.energy_j == pytest.approx(joules(layers), rel=0.25)


def test_a_row_that_contradicts_all_others_is_rejected_as_it_was_told() -> None:
    rows = [surveyed(layers) for layers in drawn()]
    rows[7] = surveyed(drawn()[7], 60.0)
    (rejection,) = fit_survey(rows).rejected
    assert rejection.row is rows[7]


def test_rows_of_a_survey_are_fitted_by_calls_and_others_by_layers() -> None:
    rows = [surveyed(layers) for layers in drawn()[:8]]
    assert isinstance(fit_rows(rows, "additive", "matern52"), SurveyFit)
    plain = [replace(row, by_calls=False) for row in rows]
    assert isinstance(fit_rows(plain, "additive", "matern52"), AdditiveFit)


def test_rows_without_calls_are_layers_among_calls() -> None:
    strange = LayerKind("mine", Role.HIDDEN, "mine")
    layers = (Layer("mine", strange, Widths({"n": 3})),)
    rows = [surveyed(layers_) for layers_ in drawn()[:8]]
    rows += [ampere.Measurement(layers, 0.5, 0.1), ampere.Measurement(layers, 0.5, 0.1)]
    assert fit_survey(rows).predict(layers).total.energy_j == pytest.approx(0.5, rel=0.3)


def test_a_layer_without_calls_is_not_the_call_of_its_name() -> None:
    rows = [surveyed(layers) for layers in drawn()[:8]]
    dear = Layer("fc", LayerKind("linear", Role.HIDDEN, "linear"), Widths({"in": 9, "out": 9}))
    told = [*rows, *(ampere.Measurement((dear,), 50.0 + i, 0.1) for i in range(2))]
    before, after = fit_survey(rows), fit_survey(told)
    assert after.calls.encoder.counted == before.calls.encoder.counted  # its FLOPs are unknown
    asked = ampere.read_layers("zoo:transformer")
    shares = {share.operation for share in after.predict((*asked, dear)).shares}
    assert {"linear", "linear (layer)"} <= shares


def test_calls_that_stand_for_themselves_stay_as_they_are() -> None:
    calls = calls_of(drawn()[0])
    assert calls_of(calls) == calls


def test_a_solution_makes_the_same_fit() -> None:
    rows = [surveyed(layers) for layers in drawn()[:12]]
    fit = fit_survey(rows)
    again = rebuild(solution_of(fit, rows), rows, "additive", "matern52")
    asked = ampere.read_layers("zoo:lenet5")
    assert again.predict(asked).total == fit.predict(asked).total


def test_one_more_row_sharpens(fit: SurveyFit) -> None:
    layers = ampere.read_layers("zoo:cnn5")
    row = surveyed(layers, 1.3)
    before, after = fit.predict(layers).total, fit.tell(row).predict(layers).total
    assert abs(after.energy_j - row.energy_j) < abs(before.energy_j - row.energy_j)
    assert after.energy_j_std < before.energy_j_std


def cheaper_in_company(layers: Sequence[Layer]) -> Measurement:
    """A row of a device on which twice as many calls cost 1.85 times as much."""
    return surveyed(layers, 2 ** (-0.11 * depth_context(calls_of(layers))))


def test_what_calls_cost_in_company_is_learned() -> None:
    few, many = (
        [layers for layers in drawn() if (calls_in(calls_of(layers)) > 120) == deep]
        for deep in (False, True)
    )
    fit = fit_survey([cheaper_in_company(layers) for layers in few])
    off = [
        fit.predict(layers).total.energy_j / cheaper_in_company(layers).energy_j for layers in many
    ]
    alone = [joules(layers) / cheaper_in_company(layers).energy_j for layers in many]
    assert abs(math.log(median(off))) < abs(math.log(median(alone))) / 2
    (note,) = fit_survey(list(map(cheaper_in_company, drawn()))).notes
    assert "calls take" in note and "less than their calls in the smallest ones" in note


def test_doubt_grows_with_calls_beyond_those_of_any_network() -> None:
    few = [layers for layers in drawn() if calls_in(calls_of(layers)) < 40]
    fit = fit_survey([surveyed(layers) for layers in few])
    one = few[-1]
    doubts = {}
    for times in (1, 3, 64):
        said = fit.predict([replace(layer, count=times) for layer in one])
        doubts[times] = said.total.energy_j_std / said.total.energy_j
        assert bool(said.doubts) == (times == 64)
    assert doubts[1] < doubts[3] < doubts[64]
    assert "no surveyed network has more than" in said.doubts[0]


def test_a_sequence_is_one_call_however_long() -> None:
    layers = [
        calls_of(ampere.read_layers("zoo:lstm", f"{length}:int64<1000")) for length in (16, 64)
    ]
    assert calls_in(layers[0]) == pytest.approx(calls_in(layers[1]), rel=0.5)
