"""Borrowing: profiles of other devices, as lenders to one that has few rows of its own, or none.

    ampere estimate MODEL --profile new.ampere --like-devices fleet/
    ampere estimate MODEL --like-devices xavier.ampere,tx2.ampere

Joules of lenders stand beside each other, so they must be of one sort: metered alike, made by one
runtime. What another device lends is no measurement here, and each estimate says whose it is.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ampere.core.fingerprint import UNKNOWN, describe_device
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.errors import DataError, NotCovered
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.lending.lenders import Lender, Lenders
from ampere.estimators.lending.unmeasured import UnmeasuredFit
from ampere.estimators.survey import SurveyFit, calls_of, is_survey
from ampere.profiles.estimate import Estimate, estimate
from ampere.profiles.library import NOBODY, Entry, open_library, read_profile, rows_in
from ampere.profiles.profile import Profile

MOST = 50  # lenders: each is asked for every layer
KEYS = ("framework", "compile")  # of an identity: what a runtime is


def read_entries(text: str, own: Path | None = None) -> list[Entry]:
    """Profiles of a folder, or of files with commas between them, each once.

    The profile in question may lie in the folder, and is passed over there; who names it among the
    others has mistaken something.
    """
    entries: list[Entry] = []
    for part in filter(None, map(str.strip, text.split(","))):
        path = Path(part)
        if path.is_dir():
            found = [each for each in open_library(path).entries if not _same(each.path, own)]
            if not found:
                raise DataError(f"{path} has no other profile than {own}: nothing can be borrowed")
            entries += found
        elif _same(path, own):
            raise DataError(f"{part} is the profile itself: name profiles of other devices")
        else:
            entries.append(Entry(path.name.removesuffix(".ampere"), path, _read(path)))
    unique = {os.path.realpath(entry.path): entry for entry in entries}
    if not unique:
        raise DataError(f"{text!r} names no profile: give a folder, or files with commas between")
    if len(unique) > MOST:
        raise DataError(f"{len(unique)} other devices are more than {MOST}: name the nearest")
    return list(unique.values())


def make_lenders(
    entries: Sequence[Entry], own: Profile | None = None, by_calls: bool | None = None
) -> Lenders:
    """Lenders, if they are of one sort, and none of them is the device in question itself.

    Args:
        entries: Their profiles.
        own: The profile that shall borrow, as far as there is one.
        by_calls: Whether it is fitted by calls, where that is known before it has rows.

    Raises:
        DataError: They do not go together.
    """
    _refuse_mixtures(entries, own)
    _refuse_layers_beside_calls(entries, own, by_calls)
    if own is not None:
        _refuse_itself(entries, own)
    names = Counter(entry.name for entry in entries)
    lenders = []
    for entry in entries:
        fit = entry.profile.fit
        if isinstance(fit, SurveyFit):
            fit = fit.calls
        if not isinstance(fit, AdditiveFit):
            raise DataError(f"{entry.path}: only the additive method lends")
        lenders.append(Lender(entry.name if names[entry.name] == 1 else str(entry.path), fit))
    return Lenders(tuple(lenders))


def estimate_unmeasured(
    layers: Sequence[Layer],
    entries: Sequence[Entry],
    *,
    steps: int = 1,
    battery_wh: float | None = None,
) -> Estimate:
    """What a device may cost that was never metered, if it is one more of their sort."""
    names = ", ".join(entry.name for entry in entries)
    if all(is_survey(entry.profile.measurements) for entry in entries):
        layers = calls_of(layers)  # lines of calls: that is what they know
    warning = "no row is of this device: the interval is as wide as the other devices are apart"
    try:
        return estimate(
            layers,
            UnmeasuredFit(make_lenders(entries)),
            steps=steps,
            battery_wh=battery_wh,
            device=f"not measured, taken to be like {names}",
            provenance=entries[0].profile.provenance,
            warnings=(warning,),
        )
    except NotCovered:
        raise NotCovered(f"none of {names} covers a layer of it: profile it there") from None


def usual_training(entries: Sequence[Entry]) -> Training:
    """How most of them were trained."""
    every = [entry.profile.training for entry in entries]
    return max(every, key=every.count)


def _read(path: Path) -> Profile:
    try:
        return read_profile(path)
    except DataError as error:
        text = str(error)
        raise DataError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _same(path: Path, own: Path | None) -> bool:
    return own is not None and os.path.realpath(path) == os.path.realpath(own)


def _refuse_itself(entries: Iterable[Entry], own: Profile) -> None:
    """A copy of the profile, or another one of the same device, would be two witnesses."""
    rows, identity = rows_in(own), own.header.fingerprint.identity
    for entry in entries:
        other = entry.profile
        if rows and rows_in(other) & rows:
            raise DataError(f"{entry.path} has rows of the profile itself: name other devices")
        if identity != NOBODY and other.header.fingerprint.identity == identity:
            raise DataError(
                f"{entry.path} is of the same device, {describe_device(own.header.fingerprint)}:"
                " put its rows into the profile instead (`ampere tell`)"
            )


def _refuse_mixtures(entries: Sequence[Entry], own: Profile | None) -> None:
    """Joules of different sorts say nothing of each other."""
    named = [(entry.name, entry.profile) for entry in entries]
    if own is not None:
        named.append(("the profile", own))
    first, profile = named[0]
    for name, other in named[1:]:
        if (one := profile.provenance.metered) != (two := other.provenance.metered):
            raise DataError(f"joules of {first} are {one}, of {name} {two}: do not mix them")
        for key in KEYS:
            ours, theirs = (_setting(each, key) for each in (profile, other))
            if UNKNOWN not in (ours, theirs) and ours != theirs:
                raise DataError(
                    f"{first} ran with {key} {ours}, {name} with {theirs}: name devices of one"
                    " runtime"
                )


def _refuse_layers_beside_calls(
    entries: Sequence[Entry], own: Profile | None, by_calls: bool | None
) -> None:
    """The layer `linear` of a family and the call `linear` of a survey are not the same thing."""
    told = [(entry.name, is_survey(entry.profile.measurements)) for entry in entries]
    if own is not None and own.measurements and not by_calls:  # surveying makes a survey of it
        told.append(("the profile", is_survey(own.measurements)))
    if by_calls is not None:
        told.append(("what is measured here", by_calls))
    first, sort = told[0]
    for name, other in told[1:]:
        if other != sort:
            survey, family = (first, name) if sort else (name, first)
            raise DataError(
                f"{survey} is a survey, and {family} is of a family, whose layers are no calls:"
                " name surveys alone to borrow for a survey, profiles of families for a family's"
            )


def _setting(profile: Profile, key: str) -> str:
    """What a runtime is; of a framework its name alone, since versions hardly matter here."""
    value = profile.header.fingerprint.identity.get(key, UNKNOWN)
    return value.split()[0] if key == "framework" and value.split() else value
