"""A profile as a user meets it: from a file, from rows, in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ampere.errors import DataError
from ampere.measurements import Measurement
from ampere.profiles import Profile, fit
from fakes import exact, plain_model


def row(drift: float) -> Measurement:
    return replace(exact(plain_model(8, 8)[-1:]), bursts={"drift": [drift] * 3})


def test_a_profile_begun_at_an_unusual_moment_says_so() -> None:
    assert "pace of the beginning" in repr(fit([row(0.7)]))
    assert "pace of the beginning" not in repr(fit([row(1.04)]))
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
