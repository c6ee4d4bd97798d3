"""What the rows of a profile say of each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ampere.estimators.base import usable
from ampere.profiles.leave_one_out import Validation, validate
from ampere.profiles.profile import Profile
from reported import made_up


@pytest.fixture(scope="module")
def profile() -> Profile:
    return made_up()


def test_networks_are_estimated_from_all_others(profile: Profile) -> None:
    found = validate(profile.fit)
    assert found is not None and found.of == "network"
    assert len(found) == len(usable(profile.measurements))
    rows = sorted(row.energy_j_per_step for row in usable(profile.measurements))
    assert sorted(found.metered_j) == pytest.approx(rows)
    assert 0.5 < found.median <= found.mape < 8
    assert 0.8 * len(found) < found.inside <= len(found)


def test_it_is_what_a_fit_without_the_row_says(profile: Profile) -> None:
    found = validate(profile.fit)
    assert found is not None
    rows = usable(profile.measurements)
    for row in rows[:3]:
        others = replace(profile, measurements=tuple(each for each in rows if each is not row))
        said = others.estimate(row.layers)
        (at,) = np.flatnonzero(np.isclose(found.metered_j, row.energy_j_per_step, rtol=1e-12))
        assert found.energy_j[at] == pytest.approx(said.energy_j, rel=0.03)


def test_the_paper_knows_single_layers() -> None:
    found = validate(made_up(method="paper").fit)
    assert found is not None and found.of == "layer"
    assert len(found) >= 17
    assert found.median < 20


def test_a_few_rows_say_nothing_of_each_other() -> None:
    profile = made_up()
    for method in ("additive", "paper"):
        few = replace(profile, measurements=profile.measurements[10:13], method=method)
        assert validate(few.fit) is None


def test_errors_and_intervals_count_as_they_should() -> None:
    found = Validation(
        "layer", np.array([1.1, 1.0, 3.0]), np.array([0.1, 0.1, 0.1]), np.array([1.0, 2.0, -1.0])
    )
    assert found.mape == pytest.approx(30.0)
    assert found.median == pytest.approx(30.0)
    assert found.inside == 1
    assert found.intervals[0] == pytest.approx((1.1 - 0.1645, 1.1 + 0.1645), abs=1e-3)
