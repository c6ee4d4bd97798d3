"""Rates: countries, constants and files, and what so many joules emit or cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ampere
from ampere.core.rates import J_PER_KWH, Rate, country_code, parse_carbon, parse_price
from ampere.errors import DataError

GRID = json.loads((Path(ampere.__file__).parent / "core" / "grid.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "grams"),
    [
        ("56g/kWh", 56.0),
        (" 56 gCO2e / kwh ", 56.0),
        ("0.056 kg/kWh", 56.0),
        ("56 kgCO2eq/MWh", 56.0),
        ("0.4 t/MWh", 400.0),
        ("0 g/kWh", 0.0),
    ],
)
def test_an_intensity_as_it_is_given(text: str, grams: float) -> None:
    rate = parse_carbon(text)
    assert rate.per_kwh == pytest.approx(grams)
    assert (rate.unit, rate.source, rate.place) == ("gCO2e", "", "")


@pytest.mark.parametrize("text", ["FR", "fr", "FRA", "France", " france "])
def test_a_country_by_any_of_its_names(text: str) -> None:
    rate = parse_carbon(text)
    assert rate.per_kwh == 56.0
    assert str(rate) == "56g/kWh (France 2023, Our World in Data)"
    assert (rate.place, rate.code) == ("France", "FRA")


def test_names_that_people_use() -> None:
    same = [("UK", "GB"), ("Turkey", "Türkiye"), ("Viet Nam", "vietnam"), ("south  korea", "KOR")]
    for one, other in same:
        assert parse_carbon(one) == parse_carbon(other)
    assert country_code("germany") == "DEU"
    assert country_code("here") == ""


def test_the_table_says_where_it_is_from() -> None:
    assert GRID["source"] == "Our World in Data"
    assert GRID["licence"] == "CC BY 4.0"
    assert "codecarbon" in GRID["taken_from"]
    rows = GRID["countries"]
    assert len(rows) > 200
    assert len({row[0] for row in rows}) == len({row[1] for row in rows}) == len(rows)
    for two, three, *names, per_kwh, year in rows:
        assert (len(two), len(three), bool(names)) == (2, 3, True)
        assert 0 < per_kwh < 1500
        assert 2000 < year < 2100


@pytest.mark.parametrize(
    ("text", "per_kwh", "currency"),
    [
        ("0.30EUR/kWh", 0.3, "EUR"),
        ("0.30 eur / kWh", 0.3, "EUR"),
        ("€0.30/kWh", 0.3, "EUR"),
        ("$120/MWh", 0.12, "USD"),
        ("0.2£/kWh", 0.2, "GBP"),
    ],
)
def test_a_price(text: str, per_kwh: float, currency: str) -> None:
    rate = parse_price(text)
    assert (rate.per_kwh, rate.unit) == (pytest.approx(per_kwh), currency)


def test_prices_by_the_hour_name_their_currency(tmp_path: Path) -> None:
    path = tmp_path / "spot.csv"
    path.write_text("time,EUR/MWh\n1700000000,100\n1700003600,-20\n")
    rate = parse_price(str(path))
    assert (rate.unit, rate.per_kwh, rate.source) == ("EUR", pytest.approx(0.04), "spot.csv")
    assert rate.during(1700000000, 1700003600).per_kwh == pytest.approx(0.1)
    path.write_text("time,value\n1700000000,100\n")
    with pytest.raises(DataError, match=r"spot.csv: its first line is 'time,value': .*EUR/kWh"):
        parse_price(str(path))


def test_a_job_is_weighed_by_its_hours_and_what_is_beyond_is_said(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text("time,kg/MWh\n1700000000,100\n1700003600,300\n")
    rate = parse_carbon(str(path))
    assert rate.per_kwh == pytest.approx(200.0)
    window = rate.during(1700001800, 1700005400)
    assert (window.per_kwh, window.note) == (pytest.approx(200.0), "")
    later = rate.during(1700003600, 1700010800)
    assert later.per_kwh == pytest.approx(250.0)
    assert later.note == (
        "grid.csv does not tell 50.0 % of the job's hours: the mean of the file counts there"
    )
    assert rate.during(1700003600, 1700003600).per_kwh == pytest.approx(300.0)  # a moment
    constant = parse_carbon("FR")
    assert constant.during(0.0, 1e9) is constant


@given(st.floats(1e-3, 1e5), st.floats(1e-6, 1e12))
def test_joules_and_back(per_kwh: float, energy_j: float) -> None:
    rate = Rate(per_kwh, "EUR")
    assert rate.joules(rate.of(energy_j)) == pytest.approx(energy_j)
    assert rate.of(J_PER_KWH) == pytest.approx(per_kwh)


def test_amounts_in_words() -> None:
    assert Rate(56.0, "gCO2e").text(0.00271) == "2.71 mgCO2e"
    assert Rate(56.0, "gCO2e").text(1200.0) == "1.20 kgCO2e"
    assert Rate(0.3, "EUR").text(0.0145) == "0.0145 EUR"
    assert Rate(0.3, "EUR").text(1234.5) == "1234.50 EUR"
    assert Rate(0.3, "EUR").text(-1.234) == "-1.23 EUR"
    assert Rate(0.3, "EUR").text(1.45e-5) == "14.5 µEUR"
    assert Rate(0.3, "EUR").text(0.0) == "0.00 EUR"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Frnace", "(is it France?)"),
        ("Atlantis", "is no country and no carbon intensity"),
        ("", "is no country"),
        ("56", "give a country such as FR, 56g/kWh"),
        ("56 value", "is no country"),
        ("-5 g/kWh", "is no country"),
        ("$5 g/kWh", "is no country"),
        ("1e99 g/kWh", "more than any kilowatt-hour has"),
        ("nan g/kWh", "is no country"),
        ("absent.csv", "absent.csv cannot be read"),
        ("x\0.csv", "is no country"),
    ],
)
def test_what_is_no_carbon_intensity(text: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_carbon(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["0.3", "0.3 EUR", "30ct/kWh", "FR", "$0.3EUR/kWh", "", "-1EUR/kWh", "1 XYZ/kWh"]
)
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(DataError, match=r"is no price of a kilowatt-hour: give 0.30EUR/kWh"):
        parse_price(text)
