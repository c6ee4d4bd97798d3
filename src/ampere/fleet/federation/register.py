"""Register: the book of a federation's rounds on the disk, so that it outlives its server.

    choose ─▶ kept ─▶ clients train ─▶ close ─▶ kept

One file of JSON, written whole or not at all. It is kept before clients are asked to train, too: a
server that is killed meanwhile knows afterwards what they may have spent. Whatever stands in it is
checked when it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.lock import lock_file, open_own
from ampere.core.types import Json
from ampere.errors import DataError, JournalError
from ampere.fleet.federation.attendance import LONGEST_REST, Attendance, Entry, Round
from ampere.fleet.federation.quotes import MOST_STEPS, Quote
from ampere.fleet.federation.rounds import Invitation
from ampere.profiles.jobs.job import MOST_J

VERSION = 1
MOST_ROUNDS, MOST_CLIENTS, MOST_NAME = 10**6, 10**5, 2**64


class Register:
    """A file that an attendance is kept in; one server at a time has it.

    Args:
        path: Where it lies; an attendance that is there already is taken up.
        book: What is kept.

    Raises:
        JournalError: It is another server's, or damaged, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], book: Attendance) -> None:
        self.path, self._book = Path(path).absolute(), book
        try:
            self._lock = open_own(self.path.with_name(f"{self.path.name}.lock"))
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            lock_file(self._lock)
            self._read()
        except BlockingIOError:
            self._lock.close()
            raise JournalError(f"{path} is another server's: end that one first") from None
        except BaseException:
            self._lock.close()
            raise

    def _read(self) -> None:
        try:
            data = read_whole(self.path, own=True)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            restore(self._book, parse_json(data))
        except DataError as error:
            raise JournalError(
                f"{self.path} is damaged: {error}; restore it from a copy, or name another file"
            ) from None

    def keep(self) -> None:
        """Put the book on the disk as it is now.

        Raises:
            JournalError: It cannot be written; what was there before is there still.
        """
        text = json.dumps(told(self._book), sort_keys=True, allow_nan=False)
        try:
            write_whole(self.path, f"{text}\n", own=True)
        except OSError as error:
            raise _unusable(self.path, error) from None

    def close(self) -> None:
        """Let another server have it."""
        self._lock.close()


def told(book: Attendance) -> dict[str, Json]:
    """A book as plain data; who was asked in a round that is not over counts as asked."""
    return {
        "version": VERSION,
        "round": book.round,
        "spent_j": book.spent_j,
        "clients": [
            {"name": name, **_entry_json(entry)} for name, entry in sorted(book.entries.items())
        ],
        "history": [_round_json(each) for each in book.history],
    }


def _entry_json(entry: Entry) -> dict[str, Json]:
    quote = None if entry.quote is None else entry.quote.to_json()
    row = {name: getattr(entry, name) for name in Entry.__dataclass_fields__} | {"quote": quote}
    return {name: value for name, value in row.items() if value is not None}


def _round_json(each: Round) -> dict[str, Json]:
    return {
        "number": each.number,
        "invitations": [asdict(invitation) for invitation in each.invitations],
        "answered": list(each.answered),
        "refusals": {str(name): reason for name, reason in each.refusals.items()},
    }


def restore(book: Attendance, row: Json) -> None:
    """Go on from what `told` wrote.

    Raises:
        DataError: It is something else, or contradicts itself; the book stays as it was.
    """
    read = Fields(row)
    if read.whole("version", least=1) > VERSION:
        raise DataError("it is of a newer ampere: update it")
    last = read.whole("round", most=MOST_ROUNDS)
    spent_j = read.number("spent_j", least=0.0, most=MOST_J)
    entries: dict[int, Entry] = {}
    for where, each in read.items("clients", most=MOST_CLIENTS):
        client = Fields(each, where)
        name = client.whole("name", most=MOST_NAME)
        if name in entries:
            raise DataError(f"{where} has the name of another client")
        entries[name] = _entry(client, last)
    rounds = [_round(Fields(each, at), last) for at, each in read.items("history", most=last)]
    book.round, book.spent_j, book.entries, book.history = last, spent_j, entries, rounds


def _entry(read: Fields, last: int) -> Entry:
    seen = read.whole("seen", least=1, most=last)
    return Entry(
        came=read.whole("came", least=1, most=seen),
        seen=seen,
        last=read.whole("last", most=last),
        quote=Quote.from_json(read.inner("quote").row, read.place("quote"))
        if "quote" in read
        else None,
        quoted=read.whole("quoted", most=last),
        owed_j=read.number("owed_j", least=0.0, most=MOST_J),
        taken=read.whole("taken", most=last),
        silences=read.whole("silences", most=last),
        rests_until=read.whole("rests_until", most=last + 1 + LONGEST_REST),
    )


def _round(read: Fields, last: int) -> Round:
    invitations = tuple(
        _invitation(Fields(each, at)) for at, each in read.items("invitations", most=MOST_CLIENTS)
    )
    invited = {each.name for each in invitations}
    answered = []
    for place, name in read.items("answered", most=MOST_CLIENTS):
        if type(name) is not int or name not in invited:
            raise DataError(f"{place} was not asked")
        answered.append(name)
    refusals: Mapping[str, str] = read.texts("refusals", most=MOST_CLIENTS)
    if not all(name.isascii() and name.isdecimal() for name in refusals):
        read.refuse("refusals", "reasons by the numbers of clients")
    return Round(
        read.whole("number", least=1, most=last),
        invitations,
        tuple(answered),
        {int(name): reason for name, reason in refusals.items()},
    )


def _invitation(read: Fields) -> Invitation:
    return Invitation(
        name=read.whole("name", most=MOST_NAME),
        steps=read.whole("steps", least=1, most=MOST_STEPS),
        energy_j=read.number("energy_j", None, least=0.0, most=MOST_J),
        energy_j_bound=read.number("energy_j_bound", None, least=0.0, most=MOST_J),
        whole=read.flag("whole"),
    )


def _unusable(path: Path, error: OSError) -> JournalError:
    return JournalError(f"{path} cannot be used: {error.strerror or error}")
