"""Levels: rates as they are while a plan runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ampere.core.boundary.moments import parse_moment
from ampere.core.rates import parse_carbon, parse_price
from ampere.fleet.levels import MOST_LEVELS, levels_of, with_levels
from ampere.fleet.member import Fleet, Member
from ampere.fleet.plan import Level
from libraries import a_profile
from planned import HOUR_S, made_up_plan


@pytest.fixture
def hourly(tmp_path: Path) -> str:
    path = tmp_path / "hours.csv"
    rows = [f"2026-11-18T{hour:02}:00+00:00,{10 * hour}" for hour in range(24)]
    path.write_text("\n".join(["time,g/kWh", *rows]) + "\n")
    return str(path)


def test_a_level_holds_until_the_next_hour(hourly: str) -> None:
    begins_s = parse_moment("2026-11-18T05:30:00Z")
    levels = levels_of(parse_carbon(hourly), begins_s, 2 * HOUR_S)
    assert levels == (Level(0.0, 50.0), Level(1800.0, 60.0), Level(5400.0, 70.0))


def test_what_never_changes_is_one_level() -> None:
    assert levels_of(parse_price("0.30EUR/kWh"), 0.0, 1e6) == (Level(0.0, 0.30),)
    assert levels_of(None, 0.0, 1e6) == ()


def test_a_plan_of_years_has_few_levels(hourly: str) -> None:
    levels = levels_of(parse_carbon(hourly), parse_moment("2026-01-01T00:00:00Z"), 1e9)
    assert 1 < len(levels) <= MOST_LEVELS + 1


def test_a_plan_keeps_what_its_members_know(hourly: str) -> None:
    profile = a_profile({"device": "pi"})
    names = [each.member for each in made_up_plan().standings]
    members = [Member(name, profile) for name in names]
    members[1] = replace(members[1], carbon=parse_carbon(hourly), price=parse_price("0.30EUR/kWh"))
    told = with_levels(made_up_plan(), Fleet(tuple(members))).standings
    assert [len(each.carbon) for each in told] == [0, 6, 0, 0]
    assert (told[1].price, told[1].currency) == ((Level(0.0, 0.3),), "EUR")


@pytest.mark.timeout(30)
def test_steps_that_are_no_round_number_come_to_an_end(hourly: str) -> None:
    carbon = parse_carbon(hourly)
    for later_s in range(200):
        begins_s = parse_moment("2026-11-18T05:30:00Z") + later_s
        levels = levels_of(carbon, begins_s, 400_001.7)
        assert 1 < len(levels) <= MOST_LEVELS + 1
        times = [each.time_s for each in levels]
        assert times == sorted(set(times)) and times[-1] < 400_001.7
