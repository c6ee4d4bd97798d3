"""A profile as a user meets it: from a file, from rows, in words."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ampere.core.layers import Role
from ampere.core.training import Training
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile, fit
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement
from fakes import exact, plain_model


def row(drift: float) -> Measurement:
    return replace(exact(plain_model(8, 8)[-1:]), bursts={"drift": [drift] * 3})


def test_a_profile_begun_at_an_unusual_moment_says_so() -> None:
    assert "the pace of that beginning" in repr(fit([row(0.7)]))
    assert "the pace of that beginning" not in repr(fit([row(1.04)]))
    assert fit([row(0.7), row(0.8), row(0.9)]).pace == pytest.approx(0.8)


def test_rows_of_several_devices_do_not_mix() -> None:
    here, there = row(1.0), replace(row(1.0), device="elsewhere")
    with pytest.raises(DataError, match="elsewhere"):
        fit([here, there])


def test_what_is_saved_is_loaded_again_and_nothing_is_overwritten(tmp_path: Path) -> None:
    profile = fit([row(1.0)])
    profile.save(tmp_path / "p.ampere")
    assert Profile.load(tmp_path / "p.ampere").measurements == profile.measurements
    with pytest.raises(DataError, match="exists"):
        profile.save(tmp_path / "p.ampere")


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="paper"):
        fit([row(1.0)], method="magic")


def test_one_modelled_row_makes_the_whole_profile_modelled() -> None:
    measured = replace(row(1.0), provenance=Provenance.EXTERNAL)
    profile = fit([measured])
    assert profile.provenance is Provenance.EXTERNAL
    mixed = replace(
        profile, measurements=(measured, replace(measured, provenance=Provenance.MODELLED))
    )
    assert mixed.provenance is Provenance.MODELLED
    assert "not measured" in repr(mixed.estimate(measured.layers))


def test_a_busy_machine_is_said() -> None:
    assert "the machine was busy" in repr(fit([replace(row(1.0), spread=0.6, repeats=9)]))
    assert "the machine was busy" not in repr(fit([replace(row(1.0), spread=0.1, repeats=9)]))


def test_most_of_the_profile_says_how_it_was_trained() -> None:
    def trained(batch: int, optimizer: str) -> Measurement:
        (layer,) = row(1.0).layers
        kind = replace(layer.kind, attributes={"batch": batch, "optimizer": optimizer})
        return replace(row(1.0), layers=(replace(layer, kind=kind),))

    def lost(loss: str, ends: bool = True) -> Measurement:
        row = trained(8, "adam")
        kind = row.layers[0].kind
        kind = replace(kind, attributes={**kind.attributes, "loss": loss})
        kind = kind if ends else replace(trained(8, "adam").layers[0].kind, role=Role.HIDDEN)
        return replace(row, layers=(replace(row.layers[0], kind=kind),))

    profile = fit([trained(8, "adam"), trained(8, "adam"), trained(10, "sgd")])
    assert profile.training == Training(8, "adam", "auto")
    assert fit([row(1.0)]).training == Training(10, "sgd", "auto")
    without_end = [lost("", ends=False)] * 3  # networks that end before the model have no loss
    chosen = fit([lost("mse"), lost("mse"), lost("own.py:loss"), *without_end])
    assert chosen.training == Training(8, "adam", "mse")
    assert fit(without_end).training == Training(8, "adam", "auto")


def test_what_is_given_replaces_what_a_profile_was_trained_with() -> None:
    training = Training(8, "adam", "mse")
    assert training.but() == training
    assert training.but(batch_size=3, optimizer=None, loss="sum") == Training(3, "adam", "sum")
    assert training.but(optimizer="sgd", loss=None) == Training(8, "sgd", "mse")


def test_faults_of_the_meter_are_doubted_aloud() -> None:
    good = row(1.0)
    faulty = [replace(good, bursts={**good.bursts, "faults": n}) for n in (2, 1)]
    profile = fit([good, *faulty])
    says = "3 readings of the meter could not be true and had to be taken again"
    assert any(says in doubt for doubt in profile.doubts)
    assert says in repr(profile)
    assert not any("readings" in doubt for doubt in fit([good]).doubts)
    (failed,) = (replace(each, failed=Failure("crashed")) for each in faulty[:1])
    header = profile.header
    assert any(
        "2 readings" in doubt for doubt in Profile((failed,), header).doubts
    )  # without a fit


@pytest.mark.parametrize(
    ("created", "days"), [(timedelta(days=200), 200), (timedelta(days=170), None)]
)
def test_an_old_profile_and_all_its_estimates_say_so(created: timedelta, days: int | None) -> None:
    profile = fit([row(1.0)])
    then = (datetime.now(timezone.utc) - created).isoformat(timespec="seconds")
    old = replace(profile, header=replace(profile.header, created=then))
    said = [f"the profile is {days} days old: `ampere evaluate` tells whether it holds"]
    assert list(old.warnings) == (said if days else [])
    assert set(old.warnings) <= set(old.estimate(row(1.0).layers).warnings)


@pytest.mark.parametrize("created", ["", "yesterday", "2001-01-01T00:00:00", "1999-12-31"])
def test_a_date_that_cannot_be_compared_is_no_reason_to_fail(tmp_path: Path, created: str) -> None:
    profile = fit([row(1.0)])
    replace(profile, header=replace(profile.header, created=created)).save(tmp_path / "p.ampere")
    assert Profile.load(tmp_path / "p.ampere").header.created == created


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"energy_j_per_step": 0.0}, "row 2: 0.0 J a step cannot be"),
        ({"energy_j_per_step": math.nan}, "row 2: nan J a step cannot be"),
        ({"energy_j_per_step": None}, "row 2: None J a step cannot be"),
        ({"time_s_per_step": 0.0}, "row 2: 0.0 s a step cannot be"),
        ({"spread": -1.0}, "row 2: spread is from 0 to 1e+06, doubt from 0 to 100"),
        ({"doubt": math.inf}, "row 2: spread is from 0 to 1e+06, doubt from 0 to 100"),
    ],
)
def test_rows_made_in_python_are_checked_like_those_of_files(
    wrong: dict[str, Any], says: str
) -> None:
    good = exact(plain_model(16))
    with pytest.raises(DataError) as caught:
        fit([good, replace(good, **wrong)])
    assert str(caught.value).startswith(says)
