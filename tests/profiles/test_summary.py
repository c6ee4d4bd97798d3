"""Summary: a profile's page of text, and when its measuring has paid off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.core.fingerprint import Fingerprint
from ampere.profiles.profile import Profile, fit
from ampere.profiles.summary import LOADING_S, PAYOFF_STEPS, pays_off_after, summarise
from ampere.records.measurement import Measurement
from fakes import exact, plain_model
from reported import made_up


def test_the_page_has_a_row_for_each_kind_and_says_what_it_took() -> None:
    text = summarise(made_up()).text()
    for part in (
        "3 kinds of layers",
        "in=1..64",
        "joules are simulated",
        "1 measurement",
        "3 measurements of single stages",
        "made for",
        "a limit ended it early",
    ):
        assert part in text


def test_the_paper_has_a_kernel() -> None:
    assert "paper, kernel matern52" in summarise(made_up(method="paper")).text()


def test_it_pays_off_once_short_runs_of_as_many_models_would_have_taken_longer() -> None:
    """What loading took counts as it was; else as it usually is."""
    rows = [replace(exact(plain_model(8, 8, 8)), time_s_per_step=0.5, cost_s=7.0)] * 4
    assert pays_off_after(fit(rows)) == -(-28 // (PAYOFF_STEPS * 0.5 + LOADING_S))
    told = [replace(row, bursts={"loading_s": 4.1}) for row in rows]
    assert pays_off_after(fit(told)) == -(-28 // (PAYOFF_STEPS * 0.5 + 4.1))
    assert "pays off after 2 models that need not be built" in repr(fit(told))


def test_variants_do_not_tell_how_long_a_model_takes() -> None:
    whole = replace(exact(plain_model(8, 8, 8)), time_s_per_step=0.5, cost_s=7.0)
    variant = replace(exact(plain_model(8)), time_s_per_step=1e-3, cost_s=0.0)
    assert pays_off_after(fit([whole, *[variant] * 5])) == 1
    assert pays_off_after(fit([replace(variant, cost_s=32.0)])) == pytest.approx(100)


def test_a_profile_of_one_moment_says_so_and_what_is_allowed_for() -> None:
    rows = [_at("12:00:03"), _at("12:01:50")]
    assert "one: how far the device is from it at other times was not seen" in repr(fit(rows))
    assert "and 3.0 % is allowed for" in repr(fit(rows))
    crowded = Fingerprint({"cores": "2", "threads": "2"})
    profile = Profile(tuple(rows), replace(fit(rows).header, fingerprint=crowded))
    assert "and 12.0 % is allowed for" in repr(profile)
    assert "allowed for" not in repr(replace(profile, method="paper"))
    assert "--sittings 2" in repr(replace(profile, method="paper"))
    assert "moments" not in repr(fit([*rows, _at("12:02:04")]))


def _at(clock: str) -> Measurement:
    return replace(exact(plain_model(8)), when=f"2026-11-18T{clock}+00:00")


def test_what_cost_nothing_or_has_no_time_never_pays_off() -> None:
    assert pays_off_after(fit([exact(plain_model(8))])) is None
