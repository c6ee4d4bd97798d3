"""Library: a folder of profiles, a device a file; a git repository of them is one as well.

    fleet/
        xavier.ampere      a journal as `ampere profile` writes it; `xavier` is its name here
        laptop.ampere
        README.md          whatever else lies there is left alone

Files come from others: each is read up to a limit, a link that leads out of the folder is not
followed, and one that cannot be used does not keep the others from being read.
"""

from __future__ import annotations

import difflib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ampere.core.boundary.files import read_whole
from ampere.core.fingerprint import UNKNOWN
from ampere.core.page import printable
from ampere.errors import AmpereError, DataError
from ampere.estimators.base import usable
from ampere.profiles.profile import Profile

SUFFIX = ".ampere"
MOST_BYTES = 32 * 2**20  # of a profile: thousands of rows
MOST_FILES = 1000
NOBODY = {"device": UNKNOWN}  # the identity of rows that were told without a device


@dataclass(frozen=True)
class Entry:
    """A profile of a library, by its file's name without the suffix."""

    name: str
    path: Path
    profile: Profile


@dataclass(frozen=True)
class Unusable:
    """A file that should be a profile, and why it is none."""

    name: str
    path: Path
    reason: str


@dataclass(frozen=True)
class Library:
    """Profiles of a folder in the order of their names, and the files that could not be used."""

    path: Path
    entries: tuple[Entry, ...] = ()
    unusable: tuple[Unusable, ...] = ()

    def __repr__(self) -> str:
        names = ", ".join(entry.name for entry in self.entries) or "none"
        bad = f", {len(self.unusable)} of no use" if self.unusable else ""
        return printable(f"<Library of profiles in {self.path}: {names}{bad}>")

    def _repr_html_(self) -> str:
        from ampere.profiles.collection.listing import list_profiles

        return list_profiles(self).html()

    def find(self, name: str) -> Entry:
        """The profile of this name, with the suffix or without it."""
        wanted = name.removesuffix(SUFFIX)
        for entry in self.entries:
            if entry.name == wanted:
                return entry
        for file in self.unusable:
            if file.name == wanted:
                raise DataError(f"{file.path} cannot be used: {file.reason}")
        raise DataError(f"{self.path} has no profile {name!r}: {self._instead(wanted)}")

    def _instead(self, name: str) -> str:
        names = [entry.name for entry in self.entries]
        lower = {each.casefold(): each for each in names}
        close = difflib.get_close_matches(name.casefold(), lower, n=3)
        if close:
            return f"did you mean {' or '.join(lower[each] for each in close)}?"
        return f"it has {', '.join(names[:20])}{' and others' * (len(names) > 20)}"


def open_library(path: str | os.PathLike[str], method: str = "additive") -> Library:
    """Read all profiles of a folder; `*.ampere` in it, not in folders inside it.

    Raises:
        DataError: There is no such folder, or no profile in it that can be used.
    """
    library = scan(path, method)
    if library.entries:
        return library
    if not library.unusable:
        raise DataError(f"{library.path} has no profile (*{SUFFIX}): {_where_else(library.path)}")
    first, *others = library.unusable
    more = f", nor can {len(others)} more" if others else ""
    raise DataError(f"{first.path} cannot be used: {first.reason}{more}; there is no other profile")


def scan(path: str | os.PathLike[str], method: str = "additive") -> Library:
    """What a folder holds, which may be nothing."""
    folder = Path(path)
    files = _files(folder)
    if len(files) > MOST_FILES:
        raise DataError(f"{folder} has {len(files):,} profiles, more than {MOST_FILES:,}: part it")
    entries: list[Entry] = []
    unusable: list[Unusable] = []
    for file in files:
        name = file.name.removesuffix(SUFFIX)
        try:
            entries.append(Entry(name, file, read_profile(file, folder, method)))
        except AmpereError as error:
            unusable.append(Unusable(name, file, _without_path(str(error), file)))
    return Library(folder, tuple(entries), tuple(unusable))


def read_profile(file: Path, folder: Path | None = None, method: str = "additive") -> Profile:
    """A profile with at least one row to learn from.

    Args:
        file: The journal.
        folder: What it must not lead out of, by a link.
        method: How it is fitted.

    Raises:
        DataError: It cannot be read, is too large, leads elsewhere, or says nothing.
        JournalError: It is damaged, or no journal.
    """
    if folder is not None and not _is_inside(file, folder):
        raise DataError("it is a link that leads out of the folder: put the file itself there")
    try:
        data = read_whole(file, MOST_BYTES, own=True)
    except OSError as error:
        raise DataError(f"it cannot be read: {error.strerror or error}") from None
    return parse_profile(file, data, method)


def parse_profile(file: Path, data: bytes, method: str = "additive") -> Profile:
    """The profile that these bytes of a file are, with at least one row to learn from."""
    profile = Profile.parse(file, data, method, keep_fit=True)
    if not usable(profile.measurements):
        raise DataError("it has no row to learn from: every one failed, or there are none")
    return profile


def rows_in(profile: Profile) -> frozenset[str]:
    """What tells rows apart, whatever stands around them in a file."""
    return frozenset(json.dumps(row.to_json(), sort_keys=True) for row in profile.measurements)


def twins(entries: Iterable[Entry]) -> list[str]:
    """Files of one device in the same settings, and whether they hold the same rows."""
    same: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        fingerprint = entry.profile.header.fingerprint
        if fingerprint.identity != NOBODY:
            same[fingerprint.id].append(entry)
    texts = []
    for alike in same.values():
        if len(alike) > 1:
            names = ", ".join(entry.name for entry in alike)
            different = {rows_in(entry.profile) for entry in alike}
            again = "; some of them hold the very same rows" * (len(different) < len(alike))
            texts.append(f"{names} are of one device in the same settings{again}")
    return texts


def _files(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            names = [each.name for each in found if each.name.endswith(SUFFIX)]
    except FileNotFoundError:
        raise DataError(f"{folder} does not exist: name a folder of profiles") from None
    except NotADirectoryError:
        raise DataError(f"{folder} is no folder: name the one that the profile lies in") from None
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror or error}") from None
    except ValueError:  # with a NUL in it
        raise DataError("no folder can have such a name") from None
    shown = [name for name in names if not name.startswith(".")]
    return [folder / name for name in sorted(shown, key=lambda name: name.removesuffix(SUFFIX))]


def _where_else(folder: Path) -> str:
    """What to do about a folder without profiles: perhaps they lie one further down."""
    below = sorted({found.parent.name for found in _further_down(folder)})
    if below:
        return f"there are some in {', '.join(str(folder / name) for name in below[:3])}"
    return "`ampere devices add` puts one there"


def _further_down(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.glob(f"[!.]*/*{SUFFIX}")
    except OSError:
        return


def _is_inside(file: Path, folder: Path) -> bool:
    home = os.path.realpath(folder)
    return os.path.dirname(os.path.realpath(file)) == home


def _without_path(text: str, file: Path) -> str:
    """A message that stands behind the file's name already."""
    return text.removeprefix(f"{file} ").removeprefix(f"{file}: ").lstrip()
