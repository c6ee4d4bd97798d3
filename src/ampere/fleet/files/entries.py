"""Entries: what people write of a fleet and its jobs, table by table, in TOML.

    [defaults]                 what holds for all
    reserve = "10%"

    [[member]]                 one of them; what it says itself counts
    name = "pi"

A file is data: it names no code, and other files only beside it or below. A mistake is one line
that names the file and the entry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ampere.core.boundary.durations import parse_time
from ampere.core.boundary.fields import Fields, shown
from ampere.core.boundary.files import below, read_text
from ampere.core.boundary.toml import parse_toml
from ampere.core.types import Json
from ampere.errors import AmpereError, DataError

MOST_BYTES = 8 * 2**20
MOST_ENTRIES = 10_000
MOST_LETTERS = 80  # of a name
MOST_S = 1e9  # thirty years
DEFAULTS, NAME = "defaults", "name"

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A table of a file: what it says, what it is called, and where other files are looked for."""

    fields: Fields
    name: str
    folder: Path
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

    def time(self, key: str) -> float | None:
        """Seconds of a text such as `6h`."""
        time_s = self.parsed(key, parse_time, "a time with its unit, such as 6h or 30min")
        if time_s is not None and not time_s <= MOST_S:
            self.fields.refuse(key, "a time of at most thirty years")
        return time_s

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
) -> tuple[str, list[Entry]]:
    """The name of a file, and its tables of one kind, with what holds for all of them.

    Args:
        path: Where it is.
        kind: What its tables are called.
        known: Names that may stand in them besides `name`.
        instead: Of a name, those that it takes the place of: one in a table puts them out of the
            defaults.

    Raises:
        DataError: It cannot be read, or says something else.
    """
    name, text = read_text(path, MOST_BYTES)
    try:
        document = Fields(parse_toml(text), f"{name}:")
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    document.only((kind, DEFAULTS))
    if isinstance(document.row.get(kind), Mapping):
        raise DataError(f"{name}: [{kind}] is one table: write [[{kind}]] above each {kind}")
    if kind not in document:
        raise DataError(f"{name}: it has no {kind}: write [[{kind}]] above each of them")
    defaults = document.inner(DEFAULTS, {})
    defaults.only(known)
    folder = Path(name).parent
    entries = [
        _entry(row, f"{name}: {kind} {number}", defaults.row, (NAME, *known), instead, folder)
        for number, (_, row) in enumerate(document.items(kind, least=1, most=MOST_ENTRIES), 1)
    ]
    return name, entries


def _entry(
    row: Json,
    place: str,
    defaults: Mapping[str, Any],
    known: Sequence[str],
    instead: Mapping[str, Sequence[str]],
    folder: Path,
) -> Entry:
    own = Fields(row, f"{place}:")
    name = own.text(NAME, most=MOST_LETTERS)
    if not name.strip() or not name.isprintable():
        own.refuse(NAME, "a name that can be read")
    where = f"{place.rpartition(' ')[0]} {name}:"
    Fields(row, where).only(known)
    replaced = {each for key in own.names() for each in instead.get(key, ())}
    inherited = {key: value for key, value in defaults.items() if key not in replaced}
    return Entry(Fields({**inherited, **own.row}, where), name, folder, frozenset(own.names()))


def _reason(error: AmpereError | OSError) -> str:
    if isinstance(error, OSError):
        return f"{shown(error.filename)} cannot be read: {error.strerror or error}"
    return str(error)
