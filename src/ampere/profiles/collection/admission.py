"""Admission: whether a file may join a library, looked at from all sides before it is written.

A profile joins whole or not at all, under a name that any file system can have, and never in the
place of another one.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

from ampere.core.boundary.files import read_whole, write_whole
from ampere.errors import AmpereError, DataError
from ampere.profiles.library import (
    MOST_BYTES,
    SUFFIX,
    Entry,
    Library,
    parse_profile,
    rows_in,
    scan,
)
from ampere.profiles.profile import Profile
from ampere.records.journal import JournalWarning

LONGEST_NAME = 60
PACKED_SUFFIX = ".gz"
NAME = re.compile(rf"[^\W_][\w.+-]{{0,{LONGEST_NAME - 1}}}")  # letters of any language
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows


def add_profile(
    folder: str | os.PathLike[str], file: str | os.PathLike[str], name: str | None = None
) -> Entry:
    """Copy a profile into a library, if it can be used and is not there already.

    Args:
        folder: The library.
        file: The profile.
        name: What it is called there; by default as its file is.

    Raises:
        DataError: It cannot be used, is there already, or its name cannot be.
        JournalError: It is damaged, or no journal.
    """
    there, source = scan(folder), Path(file)
    called = _checked_name(there, source.name if name is None else name)
    data = _read(source)
    profile = _checked_profile(source, data)
    _refuse_twin(there, profile, source)
    target = there.path / f"{called}{SUFFIX}"
    try:
        write_whole(target, data, new=True, own=True)
    except FileExistsError:
        raise _taken(target) from None
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}") from None
    return Entry(called, target, profile)


def _checked_name(there: Library, name: str) -> str:
    """A name that every file system can have, and no other profile has, in capitals or not."""
    called = name.removesuffix(PACKED_SUFFIX).removesuffix(SUFFIX)
    if not NAME.fullmatch(called) or RESERVED.fullmatch(called) or called.endswith("."):
        raise DataError(
            f"{called[:80]!r} is no name for a profile: give --name, up to {LONGEST_NAME} letters,"
            " digits, - _ + and dots, the first a letter or a digit"
        )
    paths = [*(each.path for each in there.entries), *(each.path for each in there.unusable)]
    for path in paths:
        if path.name.removesuffix(SUFFIX).casefold() == called.casefold():
            raise _taken(path)
    return called


def _taken(path: Path) -> DataError:
    return DataError(f"{path} exists: choose another name with --name, or remove it first")


def _read(source: Path) -> bytes:
    try:
        return read_whole(source, MOST_BYTES)
    except FileNotFoundError:
        raise DataError(f"{source} does not exist: check the path") from None
    except IsADirectoryError:
        raise DataError(f"{source} is a directory: name a file in it") from None
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror or error}") from None
    except DataError as error:
        raise DataError(f"{source}: {error}") from None


def _checked_profile(source: Path, data: bytes) -> Profile:
    """A profile of whole lines that can be fitted."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", JournalWarning)
        try:
            profile = parse_profile(source, data)
        except JournalWarning:
            raise DataError(
                f"the last line of {source} is torn: wait until nothing writes to it, or delete"
                " that line"
            ) from None
        except DataError as error:
            raise DataError(f"{source}: {error}") from None
    try:
        _ = profile.fit
    except AmpereError as error:
        raise DataError(f"{source} cannot be fitted: {error}") from None
    return profile


def _refuse_twin(there: Library, profile: Profile, source: Path) -> None:
    """Refuse rows of the same device that are there already, whatever their file is called."""
    own = profile.header.fingerprint
    for entry in there.entries:
        if entry.profile.header.fingerprint == own and rows_in(profile) <= rows_in(entry.profile):
            raise DataError(
                f"{entry.path} has all rows of {source} already: nothing is to be added"
            )
