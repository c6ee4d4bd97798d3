"""Breakdown: portions of a model's joules, and the stages of its kinds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ampere.core.layers import LayerKind
from ampere.errors import NotCovered
from ampere.profiles.breakdown import ITSELF, PARTS, divide
from ampere.profiles.profile import Profile, fit
from fakes import FIRST, HIDDEN, LAST, exact, plain_layer, plain_model
from reported import SHARES, made_up


@pytest.fixture(scope="module")
def profile() -> Profile:
    return made_up()


def test_portions_are_all_of_the_estimate(profile: Profile) -> None:
    layers = plain_model(20, 30, 40)
    division = divide(profile, layers)
    assert division.model == "the given model"
    assert division.estimate == profile.estimate(layers)
    assert math.fsum(each.energy_j for each in division.portions) == pytest.approx(
        division.estimate.energy_j
    )
    assert math.fsum(each.share for each in division.portions) == pytest.approx(1.0)
    assert division.portions[-1].name == ITSELF


def test_equal_layers_are_one_portion_with_one_error(profile: Profile) -> None:
    same = plain_layer(HIDDEN, in_=32, out=32)
    ends = plain_layer(FIRST, out=32), plain_layer(LAST, in_=32)
    division = divide(profile, [ends[0], same, replace(same, count=2), ends[1]])
    _, once, twice, *_ = (line.cost for line in division.estimate.lines)
    assert len(division.portions) == 4
    thrice = division.portions[1]
    assert "×3" in thrice.name.replace(" ", "")
    assert thrice.energy_j == pytest.approx(once.energy_j + twice.energy_j)
    assert thrice.energy_j_std == pytest.approx(3 * once.energy_j_std)
    low, high = thrice.energy_j_interval
    assert low < thrice.energy_j < high


def test_stages_are_shares_of_what_was_run_alone(profile: Profile) -> None:
    division = divide(profile, plain_model(20, 30))
    expected = tuple(SHARES[part] for part in PARTS)
    assert division.stages == {HIDDEN.name: pytest.approx(expected)}
    by_kind = {portion.kind.name: portion.stages for portion in division.portions}
    assert by_kind[HIDDEN.name] == pytest.approx(expected)
    assert by_kind[FIRST.name] == ()


def test_stages_count_only_where_all_three_were_run(profile: Profile) -> None:
    rows = [row for row in profile.measurements if row.stage != "update"]
    assert divide(replace(profile, measurements=tuple(rows)), plain_model(20, 30)).stages == {}


def test_by_default_it_is_the_largest_network_unless_the_zoo_has_its_model(
    profile: Profile,
) -> None:
    largest = plain_model(64, 64)
    rows = [exact(plain_model(a, b)) for a in (1, 30, 64) for b in (1, 30, 64)]
    division = divide(fit(rows))
    assert division.model == "the largest profiled network"
    assert division.estimate.energy_j == fit(rows).estimate(largest).energy_j
    # A file of the user's that a profile names is not run, nor is a family that is not there.
    for model in ("mine.py:Net", "zoo:none_such"):
        other = replace(profile, header=replace(profile.header, model=model))
        assert divide(other).model == "the largest profiled network"


def test_a_model_of_which_nothing_is_known_is_refused(profile: Profile) -> None:
    with pytest.raises(NotCovered, match="covers none of"):
        divide(profile, [plain_layer(LayerKind("strange", FIRST.role, "strange"), out=3)])
