"""Summary: a profile's page of text, and when its measuring has paid off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.profiles.profile import fit
from ampere.profiles.summary import PAYOFF_STEPS, pays_off_after, summarise
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


def test_it_pays_off_once_steps_of_as_many_models_would_have_taken_longer() -> None:
    rows = [replace(exact(plain_model(8, 8, 8)), time_s_per_step=0.5, cost_s=7.0)] * 4
    assert pays_off_after(fit(rows)) == -(-28 // (PAYOFF_STEPS * 0.5))
    assert f"pays off after 3 models whose {PAYOFF_STEPS} steps" in repr(fit(rows))


def test_variants_do_not_tell_how_long_a_model_takes() -> None:
    whole = replace(exact(plain_model(8, 8, 8)), time_s_per_step=0.5, cost_s=7.0)
    variant = replace(exact(plain_model(8)), time_s_per_step=1e-3, cost_s=0.0)
    assert pays_off_after(fit([whole, *[variant] * 5])) == 1
    assert pays_off_after(fit([replace(variant, cost_s=1.0)])) == pytest.approx(50)


def test_what_cost_nothing_or_has_no_time_never_pays_off() -> None:
    assert pays_off_after(fit([exact(plain_model(8))])) is None
