"""Roofline: a device that is linear in FLOPs and bytes is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.estimators.baselines.roofline import fit_roofline
from ampere.estimators.encoding.encoder import STEP
from priced_rows import (
    OTHERS,
    ROWS,
    joules,
    measured,
    members,
    noisy,
    relative_std,
)


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_roofline_finds_a_linear_device(seed: int) -> None:
    fit = fit_roofline([measured(layers) for layers in members(30, seed)])
    assert fit.method == "roofline"
    for layers in OTHERS:
        said, true = fit.predict(layers), measured(layers)
        assert said.total.energy_j == pytest.approx(true.energy_j_per_step, rel=0.1)
        assert said.total.time_s == pytest.approx(true.time_s_per_step, rel=0.1)
        assert [line.layer for line in said.lines] == [*layers, STEP]
        assert all(line.cost.energy_j > 0 for line in said.lines)


def test_roofline_error_is_that_of_its_rows() -> None:
    quiet, loud = (
        fit_roofline(noisy(members(60, seed=16), seed=16, noise=noise)) for noise in (0.0, 0.2)
    )
    assert quiet.error < 0.03
    assert 0.12 < loud.error < 0.3
    assert relative_std(loud.predict(OTHERS[0])) > 3 * relative_std(quiet.predict(OTHERS[0]))


def test_roofline_without_times_has_none() -> None:
    rows = [replace(row, time_s_per_step=None) for row in ROWS]
    said = fit_roofline(rows).predict(OTHERS[0]).total
    assert said.energy_j == pytest.approx(joules(OTHERS[0]), rel=0.1)
    assert said.time_s is None
