"""Entries: what people write of a fleet and its jobs, table by table, in TOML.

    [defaults]                 what holds for all
    reserve = "10%"

    [[member]]                 one of them; what it says itself counts
    name = "pi"

A file is data: it names no code, and other files only beside it or below. A mistake is one line
that names the file and the entry.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import time
from pathlib import Path
from typing import Any, TypeVar

from ampere.core import units
from ampere.core.boundary.durations import parse_time
from ampere.core.boundary.fields import Fields, shown
from ampere.core.boundary.files import below, read_text
from ampere.core.boundary.moments import STATED, Calendar, Stated, parse_moment, parse_zone
from ampere.core.boundary.toml import parse_toml
from ampere.core.types import Json
from ampere.errors import AmpereError, DataError
from ampere.records.measurement import utc, utc_now

MOST_BYTES = 8 * 2**20
MOST_ENTRIES = 10_000
MOST_LETTERS = 80  # of a name
MOST_S = 3e9  # ninety years
MOMENT_S = 1e-3  # after which something is later
DEFAULTS, NAME, ZONE = "defaults", "name", "zone"
TIME_WANTED = "a time such as 6h or 30min, or a moment such as 2026-11-19T06:00:00+01:00"

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A table of a file: what it says, what it is called, and where other files are looked for."""

    fields: Fields
    name: str
    folder: Path
    calendar: Calendar
    own: frozenset[str] = frozenset()  # what it says itself, not by default

    def parsed(self, key: str, parse: Callable[[str], T], wanted: str) -> T | None:
        """What a text means, as `parse` reads it; None if it is not there."""
        if key not in self.fields:
            return None
        if not isinstance(self.fields.row[key], str):
            self.fields.refuse(key, wanted)
        text = self.fields.text(key, most=2000)
        try:
            return parse(text)
        except (AmpereError, OSError) as error:
            raise DataError(f"{self.fields.place(key)}: {_reason(error)}") from None

    def time(self, key: str, *, passed: bool = False) -> float | None:
        """Seconds from the beginning of the plan: of a text such as `6h`, or of a moment.

        Args:
            key: Where it stands.
            passed: Whether it may be a moment before the plan begins; it is below 0 then.
        """
        value = self.fields.row.get(key)
        if not isinstance(value, STATED):
            time_s = self.parsed(key, parse_time, TIME_WANTED)
        else:
            time_s = self._seconds(key, value)
            if time_s < 0 and not passed:
                raise DataError(f"{self.fields.place(key)} {self._passed(time_s)}")
        if time_s is not None and not abs(time_s) <= MOST_S:
            self.fields.refuse(key, "a time within ninety years")
        return time_s

    def _seconds(self, key: str, value: Stated) -> float:
        try:
            return self.calendar.seconds(value)
        except DataError as error:
            raise DataError(f"{self.fields.place(key)}: {error}") from None

    def _passed(self, time_s: float) -> str:
        begins = utc(self.calendar.begins_s)
        return f"has passed: it is {units.seconds(-time_s)} before the plan begins ({begins})"

    def span(self) -> tuple[float, float]:
        """Seconds at which a table with `from` and `to` begins and ends; without `to`, never.

        A time of day is the next one. Of two of them `to` is, and `from` is the last one before it.
        """
        begin, end = (self.fields.row.get(key) for key in ("from", "to"))
        start_s = self.time("from", passed=True) or 0.0
        end_s = self.time("to")
        if isinstance(begin, time) and isinstance(end, time):
            end_s = self.calendar.after(end, MOMENT_S)  # one that is now has passed
            start_s = self.calendar.before(begin, end_s)
        elif isinstance(end, time):
            end_s = self.calendar.after(end, max(0.0, start_s) + MOMENT_S)
        return max(0.0, start_s), math.inf if end_s is None else end_s

    def file(self, key: str, read: Callable[[Path], T]) -> T | None:
        """What stands in a file that is named here."""
        return self.parsed(key, lambda name: read(self.beside(name)), "the name of a file")

    def beside(self, name: str) -> Path:
        """A file that is named here."""
        path = below(self.folder, name)
        if not path.is_file():  # a pipe would be waited for
            raise DataError(f"there is no file {path}")
        return path

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        """Whatever is wrong inside is told with the place."""
        try:
            yield
        except AmpereError as error:
            reason = str(error).removeprefix(f"{what} {self.name}: ")
            where = self.fields.place("").rstrip()
            raise DataError(reason if reason.startswith(where) else f"{where} {reason}") from None


def read_entries(
    path: str | os.PathLike[str],
    kind: str,
    known: Sequence[str],
    instead: Mapping[str, Sequence[str]] = {},
    begins: str | None = None,
) -> tuple[str, list[Entry]]:
    """The name of a file, and its tables of one kind, with what holds for all of them.

    Args:
        path: Where it is.
        kind: What its tables are called.
        known: Names that may stand in them besides `name` and `zone`.
        instead: Of a name, those that it takes the place of: one in a table puts them out of the
            defaults.
        begins: The moment that seconds count from, ISO 8601; now if nothing is said.

    Raises:
        DataError: It cannot be read, or says something else.
    """
    name, text = read_text(path, MOST_BYTES, f"[[{kind}]] tables in TOML")
    try:
        document = Fields(parse_toml(text), f"{name}:")
    except DataError as error:
        raise DataError(f"{name}: {error}{_hint(str(error), text, kind)}") from None
    document.only((kind, DEFAULTS))
    if isinstance(document.row.get(kind), Mapping):
        raise DataError(f"{name}: [{kind}] is one table: write [[{kind}]] above each {kind}")
    if kind not in document:
        raise DataError(f"{name}: it has no {kind}: write [[{kind}]] above each of them")
    defaults = document.inner(DEFAULTS, {})
    defaults.only((*known, ZONE))
    calendar = Calendar(parse_moment(utc_now() if begins is None else begins))
    shape = _Shape(defaults.row, (NAME, *known, ZONE), instead, Path(name).parent, calendar)
    entries = [
        shape.entry(row, f"{name}: {kind} {number}")
        for number, (_, row) in enumerate(document.items(kind, least=1, most=MOST_ENTRIES), 1)
    ]
    return name, entries


def _hint(error: str, text: str, kind: str) -> str:
    """What is meant, where TOML itself is not as people expect it."""
    if "twice" in error and any(line.strip() == f"[{kind}]" for line in text.split("\n")):
        return f": write [[{kind}]] above each {kind}"
    return ": texts stand between quotes" if "Invalid value" in error else ""


@dataclass(frozen=True)
class _Shape:
    """What holds for all tables of a file."""

    defaults: Mapping[str, Any]
    known: Sequence[str]
    instead: Mapping[str, Sequence[str]]
    folder: Path
    calendar: Calendar

    def entry(self, row: Json, place: str) -> Entry:
        """A table, with what holds for all where it says nothing else."""
        own = Fields(row, f"{place}:")
        name = own.text(NAME, most=MOST_LETTERS)
        if not name.strip() or not name.isprintable():
            own.refuse(NAME, "a name that can be read")
        where = f"{place.rpartition(' ')[0]} {name}:"
        Fields(row, where).only(self.known)
        replaced = {each for key in own.names() for each in self.instead.get(key, ())}
        inherited = {key: value for key, value in self.defaults.items() if key not in replaced}
        fields = Fields({**inherited, **own.row}, where)
        entry = Entry(fields, name, self.folder, self.calendar, frozenset(own.names()))
        zone = entry.parsed(ZONE, parse_zone, "a zone such as Europe/Berlin or +01:00")
        return replace(entry, calendar=replace(self.calendar, zone=zone))


def _reason(error: AmpereError | OSError) -> str:
    if isinstance(error, OSError):
        return f"{shown(error.filename)} cannot be read: {error.strerror or error}"
    return str(error)
