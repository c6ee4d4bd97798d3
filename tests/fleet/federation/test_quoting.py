"""Quoting: what a client's own profile says of a round."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere.errors import DataError
from ampere.estimators.intervals import probability_within
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.quoting import quote_round
from ampere.fleet.member import Battery
from ampere.profiles.jobs.job import Job, Loading
from ampere.pytorch.models import read
from integrations.cases import known_profile
from plain_rows import layer

BATTERY = Battery(900.0, 4000.0, 800.0)


def test_it_is_the_median_and_what_nine_of_ten_rounds_stay_under() -> None:
    profile = known_profile()
    said = quote_round(profile, "zoo:cnn5", steps=20, batch_size=10, battery=BATTERY, fixed_j=2.0)
    estimate = profile.estimate("zoo:cnn5", steps=20)
    assert said.energy_j == pytest.approx(2.0 + estimate.energy_j)
    assert said.time_s == pytest.approx(estimate.time_s)
    assert said.energy_j_bound is not None
    steps_j = said.energy_j_bound - 2.0
    inside = probability_within(steps_j, estimate.energy_j, estimate.energy_j_std, estimate.method)
    assert inside == pytest.approx(0.9, abs=0.01)
    assert (said.samples, said.steps, said.battery) == (200, 20, BATTERY)
    assert (said.provenance, said.usable_j) == (estimate.provenance, 100.0)


def test_a_job_may_be_said_with_its_loading() -> None:
    job = Job(epochs=2, samples=95, loading=Loading(0.02, 1.0))
    said = quote_round(known_profile(), "zoo:cnn5", job=job, batch_size=10)
    bare = quote_round(known_profile(), "zoo:cnn5", steps=20, batch_size=10)
    assert (said.steps, said.samples) == (20, 200)
    assert said.energy_j is not None and bare.energy_j is not None
    assert said.energy_j == pytest.approx(bare.energy_j + 20.0)


def test_without_a_profile_there_are_no_joules() -> None:
    said = quote_round(None, "zoo:cnn5", steps=20, batch_size=10, battery=BATTERY, fixed_j=2.0)
    assert said == Quote(200, 20, battery=BATTERY)


def test_a_profile_that_does_not_know_all_layers_is_as_good_as_none() -> None:
    layers = (layer("never seen"), *read("zoo:cnn5", None, known_profile().training))
    assert quote_round(known_profile(), layers, steps=20, batch_size=10).energy_j is None


def test_a_profile_without_seconds_tells_joules_alone() -> None:
    said = quote_round(known_profile(seconds=False), "zoo:cnn5", steps=20, batch_size=10)
    assert (said.time_s, said.time_s_bound) == (None, None)
    assert said.energy_j is not None


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="give one of them"):
        quote_round(None, "zoo:cnn5")
    with pytest.raises(DataError, match="give one of them"):
        quote_round(None, "zoo:cnn5", steps=1, job=Job(steps=1))
    broken = tmp_path / "broken.ampere"
    broken.write_text('{"x": 1}\n')
    with pytest.raises(Exception) as refusal:
        quote_round(broken, "zoo:cnn5", steps=1)
    assert "\n" not in str(refusal.value)
