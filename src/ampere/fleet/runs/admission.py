"""Admission: whether a worker is the device that it says it is.

A fingerprint tells an honest mistake from the truth; who wants to lie can send the right one.
"""

from __future__ import annotations

from ampere.errors import DataError
from ampere.fleet.member import Fleet, Member
from ampere.fleet.runs.orders import Greeting

CHOSEN = ("accelerator", "threads")  # by whoever starts the worker
CLOCK_S = 5.0  # by which clocks may differ before it is worth a word


def admitted(fleet: Fleet, name: str, greeting: Greeting) -> Member:
    """The member whose device this is.

    Raises:
        DataError: It is nobody's, another one's, or has other joules than its profile.
    """
    member = fleet.find(name)
    if greeting.member != name:
        raise DataError(f"it calls itself {greeting.member}")
    _refuse_another_device(member, greeting)
    metered = greeting.provenance.metered
    if metered == "measured" and member.profile.provenance.metered != "measured":
        raise DataError(
            f"it says that its joules are {greeting.provenance.origin}, those of its profile"
            f" are {member.profile.provenance.metered}"
        )
    return member


def _refuse_another_device(member: Member, greeting: Greeting) -> None:
    ours = member.profile.header.fingerprint.identity
    theirs = greeting.fingerprint.identity
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            advice = "profile that device, or correct the fleet"
            if key in CHOSEN and key in ours:
                advice = f"start it with --{key} {ours[key]}, or {advice}"
            raise DataError(
                f"it is another device than its profile's: {key} is"
                f" {theirs.get(key, 'not set')} there, {ours.get(key, 'not set')} in the"
                f" profile; {advice}"
            )


def clock_note(name: str, greeting: Greeting, now_s: float) -> str | None:
    """What is to be said of a worker's clock, seconds since 1970 here being so many."""
    off_s = greeting.clock_s - now_s
    if abs(off_s) <= CLOCK_S:
        return None
    way = "ahead of" if off_s > 0 else "behind"
    return f"{name}: its clock is {abs(off_s):.0f} s {way} this one, which counts"
