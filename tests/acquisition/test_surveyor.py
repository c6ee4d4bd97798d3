"""Surveys: what is measured, that it goes on where it stopped, and what comes of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import ampere
from ampere.acquisition import surveyor
from ampere.acquisition.catalogue import GENRES, draw, read_catalogue
from ampere.acquisition.progress import Event
from ampere.acquisition.surveyor import Surveyor, candidates
from ampere.core.layers import network_identity
from ampere.core.training import Training
from ampere.errors import DataError, MeasurementFailed
from ampere.estimators.survey import SurveyFit, calls_of
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import Measurement
from fakes import FakeDevice
from surveyed import cost, joules, kept_candidates, surveyed

ASKED = "zoo:cnn5"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few networks, that are read already: reading one takes longer than anything else here."""
    monkeypatch.setattr(surveyor, "POOL", 10)
    monkeypatch.setattr(surveyor, "START", 6)
    monkeypatch.setattr(surveyor, "candidates", kept_candidates)


def survey(
    path: Path, joules: float, watch: list[Event] | None = None, seconds: float = 1e6
) -> ampere.Profile:
    """Ended by joules: seconds are also ours, and reading takes them on a busy machine."""
    events = [] if watch is None else watch
    return ampere.survey(
        path,
        device=FakeDevice(cost),
        like=[ASKED],
        time_limit_s=seconds,
        energy_limit_j=joules,
        tolerance=1e-6,
        sittings=0,
        watch=events.append,
    )


def test_a_survey_answers_for_a_model_that_it_never_measured(tmp_path: Path) -> None:
    events: list[Event] = []
    profile = survey(tmp_path / "s.ampere", 16.0, events)
    assert isinstance(profile.fit, SurveyFit)
    assert all(row.by_calls for row in profile.measurements)
    layers = ampere.read_layers(ASKED)
    answer = profile.estimate(ASKED)
    assert answer.energy_j == pytest.approx(joules(layers), rel=0.3)
    assert answer.shares[0].operation in {"convolution", "update", "linear"}
    assert any("median expected error" in event.doing for event in events)
    assert (tmp_path / "s.ampere").stat().st_size < 2_000_000


def test_it_goes_on_with_other_networks_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "s.ampere"
    first = survey(path, 8.0)
    second = survey(path, 8.0)
    before, after = (
        [network_identity(row.layers) for row in each.measurements] for each in (first, second)
    )
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert not set(after[len(before) :]) & set(before)


def test_a_profile_of_a_family_can_be_surveyed(tmp_path: Path) -> None:
    path = tmp_path / "p.ampere"
    model = ampere.build_model("zoo:lenet5")  # the fake device knows layers, not names
    strategy = ampere.Strategy(max_measurements=4)
    ampere.profile(model, (1, 28, 28), path=path, device=FakeDevice(cost), strategy=strategy)
    profile = survey(path, 8.0)
    assert {row.by_calls for row in profile.measurements} == {True, False}
    assert isinstance(profile.fit, SurveyFit)


def test_too_short_a_limit_says_so(tmp_path: Path) -> None:
    with pytest.raises(MeasurementFailed, match="give it more"):
        survey(tmp_path / "s.ampere", 30.0, seconds=1e-9)


def held(network: ampere.Network) -> float:
    """What a network works on, in bytes."""
    features = [call.features for call in calls_of(network.layers)]
    return sum((f.activation_bytes or 0) + (f.parameter_bytes or 0) for f in features)


def test_larger_candidates_than_one_that_did_not_fit_are_dropped() -> None:
    asked = [calls_of(ampere.read_layers(ASKED))]
    tested = Surveyor(asked)
    failed = Failure("no memory", Cause.MEMORY)
    refused = tested.ask(3)
    for network in refused:
        tested.tell(Measurement(network.layers, failed=failed))
    left = tested.ask(10)
    assert len(left) < 10
    assert max(map(held, left), default=0) < min(map(held, refused))


def test_the_expected_error_falls() -> None:
    tested = Surveyor([calls_of(ampere.read_layers(ASKED))])
    errors = []
    for _ in range(4):
        for network in tested.ask(6):
            tested.tell(surveyed(network.layers))
        errors.append(tested.expected_error)
    assert errors[0] == math.inf  # of so few rows nothing is believed
    assert errors[-1] < errors[1] < math.inf


def test_networks_are_drawn_and_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveyor, "candidates", candidates)
    monkeypatch.setattr(surveyor, "POOL", 4)
    monkeypatch.setattr(surveyor, "START", 2)
    monkeypatch.setattr(surveyor, "MOST_FLOPS", 2e8)
    tested = Surveyor([calls_of(ampere.read_layers(ASKED))])
    for network in tested.ask(2):
        assert all(layer.kind.structure is not None for layer in network.layers)
        tested.tell(surveyed(network.layers))
    assert tested.remaining > 0


def test_each_survey_draws_networks_of_its_own() -> None:
    asked = [calls_of(ampere.read_layers(ASKED))]
    first, again, other = (
        network_identity(next(candidates(seed, Training(), asked)).layers)
        for seed in ("survey 0 0", "survey 0 0", "survey 0 12")
    )
    assert first == again != other


def test_candidates_have_the_precision_that_is_asked_for() -> None:
    network = next(candidates("x", Training(dtype="bfloat16")))
    assert all(layer.kind.attributes["dtype"] == "bfloat16" for layer in network.layers)
    assert all(w.attributes["precision"] == "bfloat16" for w in network.layers[0].work)


def test_the_catalogue_is_read_and_drawn_from() -> None:
    every = read_catalogue()
    assert len(every) > 200
    assert {each.genre for each in every} == set(GENRES)
    assert all(each.calls for each in every)
    language = draw(["language"], many=5)
    assert len(language) == 5 and language == draw(["language"], many=5)
    families = {each.family for each in every}
    assert draw([], without=families) == []


def test_a_genre_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match="vision, mobile"):
        draw(["sound"])


def test_measured_rows_say_that_they_are_of_a_survey() -> None:
    row = surveyed(ampere.read_layers("zoo:lenet5"))
    assert Measurement.from_json(row.to_json()).by_calls
    assert not Measurement.from_json(replace(row, by_calls=False).to_json()).by_calls


def test_a_device_that_throttles_in_mid_survey_is_told_and_loses_nothing(tmp_path: Path) -> None:
    """Half way through all takes twice as much: more than the reference is believed."""
    device = FakeDevice(cost, drift=lambda clock_s: 1.0 if clock_s < 3 else 2.0)
    profile = ampere.survey(
        tmp_path / "s.ampere", device=device, like=[ASKED], time_limit_s=1e6, energy_limit_j=24.0,
        tolerance=1e-6, sittings=0,
    )  # fmt: skip
    assert len(ampere.Profile.load(tmp_path / "s.ampere").measurements) == len(profile.measurements)
    assert not any(row.failed for row in profile.measurements)
    assert any(
        "rows: the reference was more than 30 % off its pace" in each for each in profile.warnings
    )
    answer, true = profile.estimate(ASKED), joules(ampere.read_layers(ASKED))
    low, high = answer.energy_j_interval
    assert low < true < 2 * true < high
