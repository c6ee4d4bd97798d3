"""The card of a model: grams of a run, of its parts and of its hours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ampere import __version__
from ampere.core.rates import J_PER_KWH, parse_carbon
from ampere.errors import DataError
from ampere.gates.card import make_card
from ampere.gates.story import Reason, Verdict
from gates.stories import end, start, status, story


def test_a_run_with_a_rate_of_its_own() -> None:
    card = make_card(story(), training_type="fine-tuning")
    assert card.text() == (
        "co2_eq_emissions:\n"
        "  emissions: 0.0056\n"
        f'  source: "ampere {__version__}, joules modelled from CPU time, not measured, 56 g/kWh"\n'
        '  training_type: "fine-tuning"\n'
        '  geographical_location: "France"\n'
        '  hardware_used: "pi, Cortex-A72"'
    )
    assert card.to_json() == {
        "co2_eq_emissions": {
            "emissions": 0.0056,
            "source": card.source,
            "training_type": "fine-tuning",
            "geographical_location": "France",
            "hardware_used": "pi, Cortex-A72",
        },
        "energy_j": 360.0,
        "provenance": "modelled",
        "warnings": [],
    }


def test_another_rate_and_other_words() -> None:
    card = make_card(story(), carbon=parse_carbon("DE"), hardware="2 boards", location="Jena")
    assert card.emissions_g == pytest.approx(360 / J_PER_KWH * 380.9)
    assert (card.location, card.hardware) == ("Jena", "2 boards")
    assert card.source.endswith("380.9 g/kWh (Germany 2023, Our World in Data)")
    assert make_card(story(), carbon=parse_carbon("DE")).location == "Germany"
    assert "location" not in make_card(story(), carbon=parse_carbon("9g/kWh")).text()


def test_hours_count_by_the_joules_that_fell_into_them(tmp_path: Path) -> None:
    path = tmp_path / "hourly.csv"
    path.write_text("time,value\n2026-11-18T09:00:00Z,100\n2026-11-18T09:00:20Z,900\n")
    card = make_card(story(), carbon=parse_carbon(str(path)))  # half of the joules in each
    assert card.emissions_g == pytest.approx(360 / J_PER_KWH * 500)


def test_looks_within_one_second_count_in_their_hour(tmp_path: Path) -> None:
    path = tmp_path / "hourly.csv"
    path.write_text("time,value\n2026-11-18T09:00:00Z,100\n2026-11-18T10:00:00Z,900\n")
    quick = [replace(status(look), time=start().time) for look in (1, 2)]
    card = make_card([start(), *quick, end()], carbon=parse_carbon(str(path)))
    assert card.emissions_g == pytest.approx(360 / J_PER_KWH * 100)


def test_joules_that_a_crash_has_lost_were_taken_all_the_same() -> None:
    crashed = [start(), status(1), status(2), status(3)]  # 108 J, the checkpoint was at 36
    resumed = [start(spent_j=36.0), status(4), end(spent_j=200.0)]
    card = make_card([*crashed, *resumed])
    assert card.energy_j == pytest.approx(108.0 + 164.0)
    assert card.emissions_g == pytest.approx(272 / J_PER_KWH * 56)
    assert card.warnings == ()


def test_joules_of_a_part_that_is_in_another_file() -> None:
    card = make_card([start(spent_j=36.0), status(4), end(spent_j=144.0)])
    assert card.energy_j == pytest.approx(144.0)
    assert card.emissions_g == pytest.approx(144 / J_PER_KWH * 56)


def test_a_part_that_was_killed_before_its_first_look_takes_nothing_away() -> None:
    parts = [start(), status(1), status(2), start(spent_j=72.0), start(spent_j=72.0), end()]
    assert make_card(parts).energy_j == pytest.approx(360.0)


def test_what_is_to_be_known_is_said() -> None:
    going_on = make_card([start(), status(1)])
    assert going_on.warnings == ("the run has no end: what it took so far is told",)
    blind = replace(status(2), verdict=Verdict.UNGATED)
    assert "the meter failed" in make_card([start(), blind, end()]).warnings[0]


def test_a_hostile_name_stays_a_text() -> None:
    yaml: Any = pytest.importorskip("yaml")
    device = 'pi"\nlicense: mit\n# \\ \u2028 é'
    card = make_card([start(device=device), status(1), end()])
    read = yaml.safe_load(card.text())
    assert list(read) == ["co2_eq_emissions"]
    assert read["co2_eq_emissions"]["hardware_used"] == device


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([], "the story has no start"),
        ([end()], "the story has no start"),
        ([start(), end(Reason.REFUSED, 0.0)], "took no joules that were metered"),
        (
            [start(carbon_g_per_kwh=None), status(1, spent_gco2e=None), end()],
            "told no carbon intensity: give --carbon FR",
        ),
    ],
)
def test_what_cannot_be_told(events: list[Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        make_card(events)


def test_only_two_trainings_are_known_to_the_hub() -> None:
    with pytest.raises(DataError, match="pre-training, fine-tuning, not 'magic'"):
        make_card(story(), training_type="magic")
