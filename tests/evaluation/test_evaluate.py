"""Evaluating on a device of known costs: every figure can be foretold."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import ampere
from ampere.acquisition.families import members, resample, resampled
from ampere.acquisition.isolator import Isolator
from ampere.acquisition.loop import open_journal, run_profiler
from ampere.acquisition.strategy import Strategy
from ampere.core.fingerprint import Fingerprint
from ampere.core.program.sizes import shape_at
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Loaded
from ampere.errors import DataError, FingerprintError, NotCovered
from ampere.estimators.base import Cost
from ampere.evaluation.evaluate import evaluate
from ampere.evaluation.evaluation import Evaluation, ModelResult
from ampere.frameworks.models import plan_variants
from ampere.meters.base import Provenance
from ampere.pytorch.graph.counter import with_features
from ampere.pytorch.models import read
from ampere.records.journal import Journal
from fakes import FakeDevice, known_cost, total


def test_members_of_a_zoo_family_differ_and_repeat_with_the_seed() -> None:
    spec = ModelSpec("zoo:lenet5")
    first, again = (
        [member.name for member, _ in zip(members(spec, random.Random(1)), range(5), strict=False)]
        for _ in range(2)
    )
    assert first == again
    assert len(set(first)) == 5


def test_a_model_of_the_user_is_resampled_with_widths_that_meet() -> None:
    layers = read("zoo:har")
    for seed in range(20):
        drawn = resample(layers, random.Random(seed))
        for before, after in itertools.pairwise(drawn):
            assert before.kind.structure is not None and after.kind.structure is not None
            left = shape_at(before.kind.structure.output, before.widths)
            assert left == shape_at(after.kind.structure.input, after.widths)
        for small, large in zip(drawn, layers, strict=True):
            assert all(1 <= small.widths[name] <= large.widths[name] for name in large.widths)


class NamedFake(FakeDevice):
    """Costs of models given by name are those of their layers."""

    def load(self, workload: Workload) -> Loaded:
        if workload.model is not None:
            workload = replace(workload, layers=read(workload.model.model), model=None)
        return super().load(workload)

    def _once(self, workload: Workload) -> Cost:
        if workload.stage in ("forward", "backward", "update"):
            cost = total(workload.layers)  # isolated stages cost more than their part of a step
            return Cost(cost.energy_j / 2, 0.0, cost.time_s / 2, 0.0)
        return super()._once(workload)


@contextmanager
def profiled(path: Path, max_points: int) -> Iterator[tuple[NamedFake, Journal]]:
    """A device, and the journal of a profile of LSTMs on it."""
    device = NamedFake(features=lambda layer: with_features(layer).features)
    journal, _ = open_journal(path, device)
    strategy = Strategy(max_points=max_points)
    with journal:
        run_profiler(Isolator(plan_variants(read("zoo:lstm")), strategy), device, journal)
        yield device, journal


def test_end_to_end_on_known_costs(tmp_path: Path) -> None:
    with profiled(tmp_path / "lstm.ampere", max_points=12) as (device, journal):
        before = len(journal.measurements)
        evaluation = evaluate(ModelSpec("zoo:lstm"), journal, device, models=6)
        assert len(journal.measurements) > before  # isolated stages are kept, models are not
        assert all(m.stage != "step" for m in journal.measurements[before:])
        kept = len(journal.measurements)
        evaluate(ModelSpec("zoo:lstm"), journal, device, models=2)
        assert len(journal.measurements) == kept
    mape = {method: evaluation.mape(method) for method in evaluation.methods}
    assert set(mape) == {
        "additive", "paper", "roofline", "flops", "flops_affine", "neuralpower",
        "extrapolation", "repeat",
    }  # fmt: skip
    assert mape["repeat"] == pytest.approx(0.0, abs=1e-9)
    assert mape["paper"] is not None and mape["paper"] < 3.0
    assert mape["additive"] is not None and mape["additive"] < 3.0
    bias = evaluation.bias("neuralpower")
    assert bias is not None and 30.0 < bias < 70.0  # three halves of the step: the overestimate
    assert evaluation.measurements == before
    assert math.isclose(
        evaluation.results[0].energy_j,
        total(read(evaluation.results[0].model), known_cost).energy_j,
    )


def test_another_device_and_an_uncovered_family_are_refused(tmp_path: Path) -> None:
    with profiled(tmp_path / "lstm.ampere", max_points=4) as (device, journal):
        with pytest.raises(NotCovered, match="profile this family first"):
            evaluate(ModelSpec("zoo:lenet5"), journal, device, models=1)
        device.fingerprint = Fingerprint({"device": "another"})
        with pytest.raises(FingerprintError, match="another"):
            evaluate(ModelSpec("zoo:lstm"), journal, device, models=1)


def test_baselines_can_be_left_out(tmp_path: Path) -> None:
    with profiled(tmp_path / "lstm.ampere", max_points=6) as (device, journal):
        before = len(journal.measurements)
        spec = ModelSpec("zoo:lstm")
        evaluation = evaluate(spec, journal, device, models=2, baselines=["flops"])
        assert evaluation.methods == ["additive", "flops", "extrapolation", "repeat"]
        assert len(journal.measurements) == before  # NeuralPower's single stages were not needed
        with pytest.raises(DataError, match="no baseline 'magic': use some of paper, roofline"):
            evaluate(spec, journal, device, models=1, baselines=["flops", "magic"])


def test_a_line_per_model() -> None:
    results = (
        ModelResult("a", 1.0, 0.1, 1.0, 1.0, {"additive": 1.1, "flops": 0.5}, (0.9, 1.2), 1e6),
        ModelResult("b", 2.0, 0.2, 2.0, 2.0, {"flops": 3.0}, None, 1e6),
    )
    evaluation = Evaluation(results, (), 8, 1.0, "pi", Provenance.MODELLED, 2.0)
    page = evaluation.by_model("flops", "paper")
    assert page.headers == [
        *("model", "estimate", "90 % interval", "metered (modelled)", "error"),
        *("by flops", "error", "by paper", "error"),
    ]
    assert [list(row) for row in page.rows] == [
        ["a", "1.10 J", "900 mJ – 1.20 J", "1.00 J", "+10.0 %", "500 mJ", "-50.0 %", "-", "-"],
        ["b", "-", "-", "2.00 J", "-", "3.00 J", "+50.0 %", "-", "-"],
    ]
    assert page.facts == [("energy", "joules are modelled from CPU time, not measured")]


def test_members_can_be_drawn_by_hand() -> None:
    drawn = ampere.sample("zoo:lenet5", 3, seed=5)
    assert [each.name for each in drawn] == [
        each.name for each in ampere.sample("zoo:lenet5", 4, seed=5)[:3]
    ]
    assert drawn[0].layers == ampere.read_layers(drawn[0].name)


def test_a_resampled_model_has_a_name_to_read() -> None:
    layers = read("zoo:lenet5")
    (drawn,) = itertools.islice(resampled("mine", layers, random.Random(0)), 1)
    outs = [layer.widths["out"] for layer in drawn.layers[:-1]]
    assert drawn.name == f"mine at widths {'-'.join(map(str, [*outs, outs[-1]]))}"
