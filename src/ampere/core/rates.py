"""Rates: what a kilowatt-hour emits or costs: always the same, of a country, or by the hour.

    parse_carbon("FR")             a country's mean of a year (grid.json)
    parse_carbon("56g/kWh")        as given
    parse_carbon("hourly.csv")     hour,value or time,value (core/boundary/hours.py)
    parse_price("0.30EUR/kWh")
    parse_price("hourly.csv")      time,EUR/MWh: the header names the currency

No network is asked.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from ampere.core.boundary.fields import shown
from ampere.core.boundary.hours import MOST, Column, Hours, read_hours
from ampere.core.units import grams, money, percent
from ampere.errors import DataError

J_PER_KWH = 3.6e6
GRAMS = "gCO2e"
CARBON_FORMS = "give a country such as FR, 56g/kWh, or a CSV file with hour,g/kWh or time,g/kWh"
PRICE_FORMS = "give 0.30EUR/kWh, or a CSV file with hour,EUR/kWh or time,EUR/kWh"
SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP"}
CURRENCIES = (
    "AED", "ARS", "AUD", "BDT", "BGN", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK",
    "EGP", "EUR", "GBP", "HKD", "HUF", "IDR", "ILS", "INR", "ISK", "JPY", "KES", "KRW", "KZT",
    "LKR", "MAD", "MXN", "MYR", "NGN", "NOK", "NZD", "PEN", "PHP", "PKR", "PLN", "QAR", "RON",
    "SAR", "SEK", "SGD", "THB", "TRY", "TWD", "UAH", "USD", "VND", "ZAR",
)  # fmt: skip
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
CO2 = r"CO[2₂](?:[ -]?eq?)?"
SHORTEST_S = 1.0  # of a window: clocks of stories tell seconds
KNOWN = 0.9999  # share of a window from which on nothing is missing

_PER = {"kwh": 1.0, "mwh": 1e-3}
_MASS = {"mg": 1e-3, "g": 1.0, "kg": 1e3, "t": 1e6}
_EMITTED = re.compile(rf"(mg|g|kg|t)\s*(?:{CO2})?\s*/\s*([km]wh)", re.IGNORECASE)
_PRICED = re.compile(r"([a-z]{3}|[$€£])\s*/\s*([km]wh)", re.IGNORECASE)
_AMOUNT = re.compile(rf"([$€£]?)\s*({NUMBER})\s*(.*)", re.ASCII)


@dataclass(frozen=True)
class Rate:
    """What a kilowatt-hour emits (`unit` is `GRAMS`) or costs (a currency)."""

    per_kwh: float  # of those that change by the hour, the mean
    unit: str
    source: str = ""
    place: str = ""  # of a country, its name
    code: str = ""  # and its three letters
    hours: Hours | None = field(default=None, repr=False)
    note: str = ""  # what is to be known of a window's rate

    def __str__(self) -> str:
        unit = "g" if self.unit == GRAMS else f" {self.unit}"
        return f"{self.per_kwh:.4g}{unit}/kWh" + (f" ({self.source})" if self.source else "")

    def text(self, amount: float) -> str:
        """An amount of the unit, with three digits: `2.71 mgCO2e`, `0.0145 EUR`, `14.5 µEUR`."""
        return grams(amount) if self.unit == GRAMS else money(amount, self.unit)

    def of(self, energy_j: float) -> float:
        """What so many joules emit or cost."""
        return self.per_kwh * energy_j / J_PER_KWH

    def joules(self, amount: float) -> float:
        """How many joules emit or cost so much."""
        if not self.per_kwh > 0:
            raise DataError(
                f"at {self} no amount of {self.unit} limits a job: write the budget in joules"
            )
        return amount / self.per_kwh * J_PER_KWH

    def during(self, begin_s: float, end_s: float) -> Rate:
        """The rate of a job that runs from one moment to another, in seconds since 1970."""
        if self.hours is None:
            return self
        mean, known = self.hours.over(begin_s, max(end_s, begin_s + SHORTEST_S))
        missing = f"{self.source} does not tell {percent(1 - known)} of the job's hours"
        note = "" if known > KNOWN else f"{missing}: the mean of the file counts there"
        return replace(self, per_kwh=mean, hours=None, note=note)


def parse_carbon(text: str) -> Rate:
    """Grams of CO2e a kilowatt-hour, as a user writes them.

    Raises:
        DataError: It is neither a country nor an intensity nor a file of hours.
    """
    amount = _AMOUNT.fullmatch(text.strip())
    emitted = _grams(amount[3]) if amount and not amount[1] else None
    if amount and emitted is not None:
        unit, scale = emitted
        return Rate(_within(float(amount[2]) * scale, text, CARBON_FORMS), unit)
    known = _countries().get(_folded(text))
    if known is not None:
        return known
    if _is_file(text):
        return _hourly(text, _grams_column, CARBON_FORMS, least=0.0)
    near = get_close_matches(_folded(text), _countries(), n=1)
    hint = f" (is it {_countries()[near[0]].place}?)" if near else ""
    raise DataError(f"{shown(text)} is no country and no carbon intensity{hint}: {CARBON_FORMS}")


def parse_price(text: str) -> Rate:
    """The price of a kilowatt-hour, as a user writes it.

    Raises:
        DataError: It is neither a price nor a file of hours.
    """
    amount = _AMOUNT.fullmatch(text.strip())
    priced = _money(f"{amount[1]}{amount[3]}") if amount else None
    if amount and priced is not None:
        currency, scale = priced
        return Rate(_within(float(amount[2]) * scale, text, PRICE_FORMS), currency)
    if _is_file(text):
        return _hourly(text, _money, PRICE_FORMS, least=-MOST)  # some hours are below 0
    raise DataError(f"{shown(text)} is no price of a kilowatt-hour: {PRICE_FORMS}")


def country_code(name: str) -> str:
    """The three letters of a country; of anything else, nothing."""
    rate = _countries().get(_folded(name))
    return "" if rate is None else rate.code


def parse_currency(text: str) -> str | None:
    """The code of a currency, if it is one: `EUR`, `eur`, `€`."""
    code = SYMBOLS.get(text, text.upper())
    return code if code in CURRENCIES else None


def _grams(unit: str) -> tuple[str, float] | None:
    """What one of `g/kWh` or `kgCO2e/MWh` is in grams a kilowatt-hour."""
    match = _EMITTED.fullmatch(unit)
    return None if match is None else (GRAMS, _MASS[match[1].lower()] * _PER[match[2].lower()])


def _grams_column(title: str) -> tuple[str, float] | None:
    return (GRAMS, 1.0) if title.lower() == "value" else _grams(title)


def _money(unit: str) -> tuple[str, float] | None:
    """The currency of `EUR/kWh` or `€/MWh`, and what one is a kilowatt-hour."""
    match = _PRICED.fullmatch(unit)
    currency = parse_currency(match[1]) if match else None
    return (currency, _PER[match[2].lower()]) if match and currency else None


def _within(value: float, text: str, forms: str) -> float:
    if not 0 <= value <= MOST:
        raise DataError(f"{shown(text)} is more than any kilowatt-hour has: {forms}")
    return value


def _is_file(text: str) -> bool:
    path = text.strip()
    if "\0" in path or not path:
        return False
    return path.lower().endswith(".csv") or Path(path).is_file()


def _hourly(text: str, column: Column, forms: str, least: float) -> Rate:
    path = text.strip()
    hours = read_hours(path, column, forms, least)
    return Rate(hours.mean, hours.unit, Path(path).name, hours=hours)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


@cache
def _countries() -> dict[str, Rate]:
    """Rates by every name of a country: two letters, three letters, in English."""
    table = json.loads((Path(__file__).parent / "grid.json").read_text(encoding="utf-8"))
    rates = {}
    for two, three, name, *others, per_kwh, year in table["countries"]:
        rate = Rate(per_kwh, GRAMS, f"{name} {year}, {table['source']}", name, three)
        rates.update({_folded(each): rate for each in (two, three, name, *others)})
    return rates
