"""Listing: the profiles of a library as a page of text, all of them or one."""

from __future__ import annotations

from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.profiles.collection.cards import (
    CHEAP_ROWS,
    Card,
    grouped_names,
    long_error,
    short_error,
)
from ampere.profiles.library import Entry, Library, twins
from ampere.profiles.summary import summarise


def list_profiles(library: Library) -> Page:
    """A line for each profile, which of them share a runtime, and what else is to be known."""
    cards = [Card(entry) for entry in library.entries]
    rows = [
        (
            *(card.name, card.device, card.joules, card.meter, units.number(card.rows)),
            *(card.made_for or units.UNKNOWN, card.begun, short_error(card.own_error(CHEAP_ROWS))),
        )
        for card in cards
    ]
    runtimes = grouped_names(cards, lambda card: card.runtime)
    return Page(
        f"{library.path}: {units.plural(len(cards), 'profile')}",
        headers=("name", "device", "joules", "meter", "rows", "made for", "begun", "own error"),
        rows=rows,
        align="<<<<><<>",
        facts=[
            *(("runtime", f"{text} ({', '.join(names)})") for text, names in runtimes),
            ("own error", "leave one out: what a profile's rows say of each other"),
            *(("note", text) for text in twins(library.entries)),
            *(("unusable", f"{file.path.name}: {file.reason}") for file in library.unusable),
        ],
    )


def listing_json(library: Library) -> dict[str, Json]:
    """Plain data, as `ampere devices list --json` prints it."""
    return {
        "library": str(library.path),
        "profiles": [Card(entry).to_json(CHEAP_ROWS) for entry in library.entries],
        "notes": list(twins(library.entries)),
        "unusable": [{"name": file.name, "reason": file.reason} for file in library.unusable],
    }


def show_profile(entry: Entry) -> Page:
    """All that there is to say of one profile: the device, its settings, its kinds of layers."""
    card, own = Card(entry), summarise(entry.profile)
    header = entry.profile.header
    settings = sorted(header.fingerprint.identity.items())
    facts = [
        ("file", str(entry.path)),
        ("device", f"{card.device}; fingerprint {header.fingerprint.id}"),
        ("settings", ", ".join(f"{name} {value}" for name, value in settings)),
        ("meter", card.meter),
        ("runtime", card.runtime),
        ("begun", header.created),
        ("own error", long_error(card.own_error())),
    ]
    if header.note:
        facts.append(("note", header.note))
    return Page(
        f"{card.name}: {units.plural(card.rows, 'row')} of {units.plural(len(own.rows), 'kind')}"
        f" of layers, joules {card.joules}",
        headers=own.headers,
        rows=own.rows,
        align=own.align,
        facts=[*facts, *own.facts],
    )


def profile_json(entry: Entry) -> dict[str, Json]:
    """Plain data, as `ampere devices show --json` prints it."""
    profile, own = entry.profile, summarise(entry.profile)
    return {
        **Card(entry).to_json(),
        "settings": dict(profile.header.fingerprint.identity),
        "conditions": dict(profile.header.fingerprint.conditions),
        "note": profile.header.note,
        "kinds": [dict(zip(own.headers, row, strict=True)) for row in own.rows],
        "warnings": list(profile.warnings),
    }
