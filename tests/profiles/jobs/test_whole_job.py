"""Whole jobs: parts add up to the total, and each brings its own doubt."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ampere.core.layers import CHECKPOINTED, Features, Layer, LayerKind, Role, Work
from ampere.core.program.widths import Widths
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Cost, Line, Share
from ampere.meters.base import Provenance
from ampere.profiles.estimate import Estimate, Part
from ampere.profiles.jobs.job import Job, Loading
from ampere.profiles.jobs.stage_shares import FORWARD_ERROR, UPDATE_ERROR, StageShares, stage_shares
from ampere.profiles.jobs.whole_job import whole_job
from ampere.profiles.profile import fit
from ampere.records.measurement import REACH
from fakes import exact, plain_model

LAYER = Layer("a", LayerKind("a", Role.LAST, "linear"), Widths({"in": 3}))
STEP = Estimate(
    lines=(Line(LAYER, Cost(2.0, 0.2, 0.5, 0.05)),),
    energy_j=2.0,
    energy_j_std=0.2,
    time_s=0.5,
    time_s_std=0.05,
    device="vm",
    provenance=Provenance.MODELLED,
    energy_j_mean_std=0.1,
)
USUAL = StageShares()


def parts(estimate: Estimate) -> dict[str, Part]:
    return {part.name: part for part in estimate.parts}


def work(operation: str, flops: float, moved: float = 0.0, **attributes: int) -> Work:
    return Work(operation, attributes=attributes, features=Features(flops, moved, 0.0))


def layer_of(*calls: Work, checkpointed: bool = False) -> Layer:
    attributes = {CHECKPOINTED: True} if checkpointed else {}
    return replace(LAYER, kind=LayerKind("a", Role.LAST, "x", attributes), work=calls)


def test_a_job_of_steps_alone_is_what_it_was() -> None:
    assert whole_job(STEP, Job(steps=7), batch_size=10) == STEP.for_steps(7)
    assert whole_job(STEP, Job(epochs=2, samples=30), batch_size=10) == STEP.for_steps(6)
    assert whole_job(STEP, Job(steps=1), batch_size=10) is STEP


def test_parts_add_up_to_the_total() -> None:
    loading = Loading(0.01, 0.05, error=0.1)
    job = Job(epochs=2, samples=100, validation_samples=50, accumulate=4, loading=loading)
    whole = whole_job(STEP, job, batch_size=10)
    named = parts(whole)
    assert list(named) == ["training", "validation", "data loading"]
    assert whole.steps == 6
    trained = 20 - 14 * USUAL.update  # 20 batches, 6 updates
    assert named["training"].cost.energy_j == pytest.approx(2.0 * trained)
    assert named["validation"].cost.energy_j == pytest.approx(2.0 * 10 / 3)
    assert named["data loading"].cost.energy_j == pytest.approx(30 * 0.05)
    assert [part.batches for part in whole.parts] == [20, 10, 30]
    assert whole.energy_j == pytest.approx(sum(part.cost.energy_j for part in whole.parts))
    assert whole.time_s == pytest.approx(sum(part.cost.time_s or 0 for part in whole.parts))
    training = math.fsum(line.cost.energy_j for line in whole.lines)
    assert training == pytest.approx(named["training"].cost.energy_j)


def test_the_error_of_a_step_is_in_training_and_validation_together() -> None:
    job = Job(epochs=1, samples=100, validation_samples=100, accumulate=2)
    whole = whole_job(STEP, job, batch_size=10)
    trained, validated = 10 - 5 * USUAL.update, 10 / 3
    doubts = (2.0 * 5 * USUAL.update * UPDATE_ERROR, 2.0 * validated * FORWARD_ERROR)
    assert whole.energy_j_std == pytest.approx(math.hypot(0.2 * (trained + validated), *doubts))
    mean = math.hypot(0.1 * (trained + validated), *doubts)
    assert whole.energy_j_mean_std == pytest.approx(mean)


def test_waiting_for_data_takes_between_idle_and_busy_watts() -> None:
    job = Job(steps=10, loading=Loading(0.2))
    part = parts(whole_job(STEP, job, batch_size=1, idle_w=1.0))["data loading"]
    assert part.cost.energy_j == pytest.approx(10 * 0.2 * 2.5)  # busy: 4 W
    assert REACH * part.cost.energy_j_std == pytest.approx(10 * 0.2 * 1.5)
    assert (part.cost.time_s, part.cost.time_s_std) == (pytest.approx(2.0), 0.0)
    unknown = parts(whole_job(STEP, job, batch_size=1))["data loading"]
    assert unknown.cost.energy_j == pytest.approx(10 * 0.2 * 2.0)
    assert REACH * unknown.cost.energy_j_std == pytest.approx(unknown.cost.energy_j)


def test_waiting_without_seconds_of_a_step_cannot_be_told() -> None:
    untimed = replace(STEP, time_s=None, time_s_std=None)
    with pytest.raises(NotCovered, match="--data-j-per-batch"):
        whole_job(untimed, Job(steps=10, loading=Loading(0.2)), batch_size=1)
    whole = whole_job(untimed, Job(steps=10, loading=Loading(0.2, 0.1)), batch_size=1)
    assert whole.time_s is None and whole.energy_j == pytest.approx(21.0)
    assert parts(whole)["data loading"].cost.time_s is None


def test_workers_load_beside_the_steps_or_not() -> None:
    loading = Loading(0.4, 1.0, idle_j=0.6, workers=2)
    part = parts(whole_job(STEP, Job(steps=1, loading=loading), batch_size=1))["data loading"]
    # in turns 1 J and 0.4 s; beside a step that is longer, 0.4 J and no second more
    assert part.cost.energy_j == pytest.approx(0.7)
    assert REACH * part.cost.energy_j_std == pytest.approx(0.3)
    assert part.cost.time_s == pytest.approx(0.2)


def test_ranks_multiply_joules_and_divide_samples() -> None:
    alone = whole_job(STEP, Job(epochs=1, samples=80, validation_samples=8), batch_size=1)
    ranked = whole_job(STEP, Job(epochs=1, samples=80, validation_samples=8, ranks=4), batch_size=1)
    assert ranked.energy_j == pytest.approx(alone.energy_j)
    assert ranked.time_s == pytest.approx((alone.time_s or 0) / 4)
    assert ranked.steps == 20 and alone.steps == 80
    assert any("never wait for each other" in text for text in ranked.warnings)
    assert "communication between ranks" in ranked.to_json()["not_in_it"]


def test_joules_of_another_origin_or_device_are_told() -> None:
    loading = Loading(0.1, 0.2, provenance=Provenance.COUNTER, device="board", samples=32)
    whole = whole_job(STEP, Job(steps=1, loading=loading), batch_size=8)
    told = "\n".join(whole.warnings)
    assert "the total mixes both" in told
    assert "metered on board, steps on vm" in told
    assert "in batches of 32: those of 8" in told


def test_what_is_left_out_is_said_truly() -> None:
    job = Job(epochs=1, samples=10, validation_samples=10)
    assert "not in it   data loading, checkpoints" in repr(whole_job(STEP, job, batch_size=1))
    full = replace(job, loading=Loading(0.1, 0.1))
    row = whole_job(STEP, full, batch_size=1).to_json()
    assert row["not_in_it"] == ["checkpoints"]
    low, high = row["parts"][1]["energy_j_interval"]
    assert low < row["parts"][1]["energy_j"] < high
    assert row["job"]["validation_batches"] == 10
    assert "not_in_it" not in STEP.to_json()
    with pytest.raises(DataError, match="whole job already"):
        whole_job(STEP, full, batch_size=1).for_steps(3)


def test_a_profile_estimates_whole_jobs() -> None:
    profile = fit([exact(plain_model(width)) for width in (1, 20, 40, 64)])
    layers = plain_model(16)
    job = Job(epochs=2, samples=100, validation_samples=50)
    whole = profile.estimate(layers, job=job)
    assert whole.energy_j > profile.estimate(layers, steps=20).energy_j
    assert repr(whole).startswith("20 training steps with validation: ")
    with pytest.raises(DataError, match="leave steps out"):
        profile.estimate(layers, job=job, steps=3)


def test_shares_are_counted_from_calls() -> None:
    frozen = layer_of(work("linear", 1e12, passes=1))
    assert stage_shares([frozen]).forward == pytest.approx(1.0)
    trained = layer_of(work("linear", 3e12, passes=3))
    assert stage_shares([trained]).forward == pytest.approx(1 / 3, rel=1e-5)
    off = layer_of(work("linear", 3e12, passes=3), work("dropout", 0.0))
    assert stage_shares([off]).forward == pytest.approx(1 / 3, rel=1e-5)
    updated = layer_of(work("linear", 3e9, passes=3), work("update", 0.0, 1e8, states=2))
    shares = stage_shares([updated])
    assert shares.update == pytest.approx(28e8 / (28e8 + 3e9 + 18e5))
    again = layer_of(work("linear", 3e12, passes=3), work("linear", 1e12, passes=1))
    checkpointed = replace(again, kind=layer_of(checkpointed=True).kind)
    assert stage_shares([checkpointed]).forward == pytest.approx(1 / 4, rel=1e-5)


def test_shares_of_layers_without_calls_are_the_usual_ones() -> None:
    assert stage_shares([LAYER]) == USUAL


def test_what_a_survey_says_of_updates_comes_first() -> None:
    layer = layer_of(work("linear", 3e12, passes=3), work("update", 0.0, 1e3, states=0))
    operations = [Share("linear", Cost(3.0, 0.1)), Share("update", Cost(1.0, 0.2))]
    shares = stage_shares([layer], operations)
    assert (shares.update, shares.update_error) == (0.25, 0.2)
    assert shares.forward == pytest.approx(0.75 / 3, rel=1e-5)
