"""`fleet.toml`: the devices of a fleet, as people write them.

    [[member]]
    name = "pi"
    profile = "profiles/pi.ampere"      # beside this file, or below
    battery = "20Wh"                    # what it holds; it runs on the mains if that is left out
    charge = "80%"                      # now; full if it is left out
    reserve = "10%"                     # what must stay in it
    charging = [{from = "2h", to = "4h", power_w = 10}]
    idle_w = 1.5                        # what it takes while it runs nothing
    slots = 1                           # jobs at once
    available = ["0h-8h", "20h-"]       # from when to when; always if that is left out
    carbon = "FR"                       # or 56g/kWh, or hourly.csv
    price = "0.30EUR/kWh"               # or hourly.csv

Times count from the moment that the plan begins at, or are moments: 2026-11-19T06:00:00+01:00, or
with `zone = "Europe/Berlin"` just 06:00:00.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ampere.core.boundary.durations import parse_span
from ampere.core.boundary.fields import Fields, shown
from ampere.core.budget import STEP, Budget, parse_budget
from ampere.core.rates import Rate, parse_carbon, parse_price
from ampere.core.types import Json
from ampere.errors import AmpereError, DataError
from ampere.fleet.files.entries import Entry, read_entries
from ampere.fleet.member import Battery, Charging, Fleet, Member, Span
from ampere.profiles.profile import Profile

MEMBER = "member"
OF_BATTERIES = ("charge", "reserve", "charging")
KNOWN = (*("profile", "battery", *OF_BATTERIES, "idle_w", "slots", "available", "carbon", "price"),)
MAINS = "mains"
MOST_SLOTS = 1000
MOST_SPANS = 1000
CAPACITY = (
    "what it holds, such as 20Wh or 72kJ (mAh × volts / 1000 are Wh), or mains if it needs none"
)
CHARGE = "a share or an energy, such as 80% or 16Wh"

_NOTHING = re.compile(r"0+(?:\.0*)?\s*(?:%|[kmM]?(?:J|Wh))", re.ASCII)


def read_fleet(path: str | os.PathLike[str], *, begins: str | None = None) -> Fleet:
    """The devices that stand in a file.

    Profiles are read as data; those of several members that share a file are one.

    Args:
        path: Where it is.
        begins: When the plan begins, ISO 8601, for dates and times of day; now if nothing is said.

    Raises:
        DataError: The file cannot be read, or says something else: one line names the place.
    """
    name, entries = read_entries(path, MEMBER, KNOWN, begins=begins)
    profiles: dict[Path, Profile] = {}

    def load(file: Path) -> Profile:
        if file not in profiles:
            profiles[file] = Profile.load(file, keep_fit=True)
        return profiles[file]

    members = tuple(_member(entry, load) for entry in entries)
    try:
        return Fleet(members)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def profile_files(path: str | os.PathLike[str]) -> dict[str, Path]:
    """Where the profile of each member of a file is.

    Raises:
        DataError: The file cannot be read, or says something else.
    """
    _, entries = read_entries(path, MEMBER, KNOWN)
    files = {entry.name: entry.file("profile", lambda file: file) for entry in entries}
    return {name: file for name, file in files.items() if file is not None}


def _member(entry: Entry, load: Callable[[Path], Profile]) -> Member:
    fields = entry.fields
    profile = entry.file("profile", load)
    if profile is None:
        fields.refuse("profile", "the file that `ampere profile` or `ampere survey` wrote")
    available = [_span(entry, *each) for each in fields.items("available", most=MOST_SPANS)]
    with entry.told(MEMBER):
        battery = _battery(entry)
        return Member(
            name=entry.name,
            profile=profile,
            battery=battery,
            charging=() if battery is None else tuple(_charging(entry)),
            idle_w=fields.number("idle_w", 0.0, least=0, most=1e6),
            available=tuple(available) if "available" in fields else (Span(0.0),),
            slots=fields.whole("slots", 1, least=1, most=MOST_SLOTS),
            carbon=_rate(entry, "carbon", parse_carbon),
            price=_rate(entry, "price", parse_price),
        )


def _battery(entry: Entry) -> Battery | None:
    """What it runs on; one that says nothing of its charge is full."""
    fields = entry.fields
    if "battery" not in fields:
        if not entry.own.isdisjoint(OF_BATTERIES):
            fields.refuse("battery", CAPACITY)
        return None
    if fields.row["battery"] == MAINS:
        return None
    capacity_j = _energy(entry, "battery", CAPACITY, 0.0)
    if not capacity_j:
        fields.refuse("battery", CAPACITY)
    charge_j = _energy(entry, "charge", CHARGE, capacity_j) if "charge" in fields else capacity_j
    reserve_j = _energy(entry, "reserve", CHARGE, capacity_j) if "reserve" in fields else 0.0
    return Battery(charge_j, capacity_j, reserve_j)


def _energy(entry: Entry, key: str, wanted: str, full_j: float) -> float:
    """Joules of `16Wh`; of `80%`, where there is something that it may be a share of."""
    text = entry.fields.row[key]
    if isinstance(text, str) and full_j and _NOTHING.fullmatch(text.strip()):
        return 0.0
    try:
        amount = parse_budget(entry.fields.text(key, most=100))
    except AmpereError:  # which speaks of budgets
        entry.fields.refuse(key, wanted)
    if not _is_energy(amount) and not (amount.is_share and full_j):
        entry.fields.refuse(key, wanted)
    return amount.joules(full_j=full_j)


def _is_energy(amount: Budget) -> bool:
    return amount.is_energy and not amount.unit.endswith(STEP)


def _span(entry: Entry, place: str, said: object) -> Span:
    """A text such as `2h-4h`, or a table of moments."""
    if isinstance(said, Mapping):
        return _window(entry, said, place, ())
    if not isinstance(said, str) or len(said) > 100:
        wanted = "must be a text such as 2h-4h, or a table such as {from = 22:00:00, to = 06:00:00}"
        raise DataError(f"{place} {wanted}, not {shown(said)}")
    try:
        return Span(*parse_span(said))
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _window(entry: Entry, row: Json, place: str, more: Sequence[str]) -> Span:
    fields = Fields(row, place)
    fields.only(("from", "to", *more))
    start_s, end_s = Entry(fields, entry.name, entry.folder, entry.calendar).span()
    try:
        return Span(start_s, end_s)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _charging(entry: Entry) -> list[Charging]:
    windows = []
    for place, row in entry.fields.items("charging", most=MOST_SPANS):
        span = _window(entry, row, place, ("power_w",))
        fields = Fields(row, place)
        if "to" not in fields:
            fields.refuse("to", "a time such as 4h")
        windows.append(Charging(span, fields.number("power_w", above=0, most=1e6)))
    return windows


def _rate(entry: Entry, key: str, parse: Callable[[str], Rate]) -> Rate | None:
    """What a kilowatt-hour emits or costs; hours stand in a file beside this one."""

    def read(text: str) -> Rate:
        if text.strip().lower().endswith(".csv"):
            return parse(str(entry.beside(text.strip())))
        if Path(text).is_file():
            raise DataError(f"{text!r} is no file of hours: those end in .csv")
        return parse(text)

    return entry.parsed(key, read, "a rate such as FR, 56g/kWh or 0.30EUR/kWh, or a CSV file")
