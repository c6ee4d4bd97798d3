"""Events: what happens to a running fleet, a line of its logbook each.

    opened    who is in the fleet, what is to be trained           the first line
    planned   who runs what from now on                            until the next plan
    joined    a member is there, with so much in its battery
    left      it is gone
    sent      a chunk: some steps of a job, for a member
    paid      what a chunk took, and how far the job is now
    broken    a chunk that will not come back: what it took is not known yet

Seconds count from the moment that the logbook was opened at, on the one clock of whoever keeps it:
no device's clock is ever asked when something happened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, TypeAlias

from ampere.core.boundary.fields import Fields
from ampere.core.boundary.moments import utc_moment
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.meters.base import Provenance

VERSION = 1
MOST_STEPS, MOST_J, MOST_S = 10**15, 1e15, 1e10
MOST_MEMBERS, MOST_JOBS = 10**4, 10**5
NAME = 200  # characters
PROVENANCES = tuple(each.value for each in Provenance)
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Account:
    """A member at the opening: its device's fingerprint, and its battery, if it has one."""

    member: str
    device: str
    energy_j: float | None = None
    capacity_j: float | None = None
    reserve_j: float = 0.0

    @classmethod
    def of(cls, row: Json, where: str) -> Account:
        """Read what was written."""
        read = Fields(row, where)
        return cls(
            member=read.text("member", most=NAME),
            device=read.text("device", most=NAME),
            energy_j=read.number("energy_j", None, least=0, most=MOST_J),
            capacity_j=read.number("capacity_j", None, above=0, most=MOST_J),
            reserve_j=read.number("reserve_j", 0.0, least=0, most=MOST_J),
        )


@dataclass(frozen=True)
class Order:
    """A job at the opening: how many steps it has, and how many of them go into a chunk.

    `digest` tells what is trained, so that a logbook never goes on with another model.
    """

    job: str
    steps: int
    chunk_steps: int
    digest: str

    @classmethod
    def of(cls, row: Json, where: str) -> Order:
        """Read what was written."""
        read = Fields(row, where)
        return cls(
            job=read.text("job", most=NAME),
            steps=read.whole("steps", least=1, most=MOST_STEPS),
            chunk_steps=read.whole("chunk_steps", least=1, most=MOST_STEPS),
            digest=_digest(read, "digest"),
        )


@dataclass(frozen=True)
class Portion:
    """Steps of a job that a plan gives to a member, and their joules: expected, and at most."""

    job: str
    member: str
    steps: int
    energy_j: float
    most_j: float
    start_s: float = 0.0

    @classmethod
    def of(cls, row: Json, where: str) -> Portion:
        """Read what was written."""
        read = Fields(row, where)
        return cls(
            job=read.text("job", most=NAME),
            member=read.text("member", most=NAME),
            steps=read.whole("steps", least=1, most=MOST_STEPS),
            energy_j=read.number("energy_j", above=0, most=MOST_J),
            most_j=read.number("most_j", above=0, most=MOST_J),
            start_s=read.number("start_s", 0.0, least=0, most=MOST_S),
        )


@dataclass(frozen=True)
class Opened:
    """The first line: all that the book is about."""

    name: ClassVar[str] = "opened"
    time_s: float
    run: str
    begins: str
    accounts: tuple[Account, ...]
    orders: tuple[Order, ...]
    version: int = VERSION

    @classmethod
    def of(cls, read: Fields) -> Opened:
        """Read what was written."""
        if read.whole("version", least=1) > VERSION:
            raise DataError("this logbook is of a newer ampere: update it")
        return cls(
            time_s=_time(read),
            run=read.text("run", most=NAME),
            begins=utc_moment(read, "begins"),
            accounts=tuple(
                Account.of(e, at) for at, e in read.items("accounts", least=1, most=MOST_MEMBERS)
            ),
            orders=tuple(Order.of(e, at) for at, e in read.items("orders", most=MOST_JOBS)),
        )


@dataclass(frozen=True)
class Planned:
    """Who runs what from now on, why it was planned, and which jobs fit nowhere."""

    name: ClassVar[str] = "planned"
    time_s: float
    why: str
    portions: tuple[Portion, ...]
    unplaced: Mapping[str, str]

    @classmethod
    def of(cls, read: Fields) -> Planned:
        """Read what was written."""
        return cls(
            time_s=_time(read),
            why=read.text("why"),
            portions=tuple(Portion.of(e, at) for at, e in read.items("portions", most=MOST_JOBS)),
            unplaced=read.texts("unplaced", {}, most=MOST_JOBS),
        )


@dataclass(frozen=True)
class Joined:
    """A member's worker proved its device; what its battery and its meter show."""

    name: ClassVar[str] = "joined"
    time_s: float
    member: str
    device: str
    provenance: Provenance
    meter_j: float
    battery_j: float | None = None

    @classmethod
    def of(cls, read: Fields) -> Joined:
        """Read what was written."""
        return cls(
            time_s=_time(read),
            member=read.text("member", most=NAME),
            device=read.text("device", most=NAME),
            provenance=_provenance(read),
            meter_j=read.number("meter_j", least=0, most=MOST_J),
            battery_j=read.number("battery_j", None, least=0, most=MOST_J),
        )


@dataclass(frozen=True)
class Left:
    """A member is gone, or its battery is down to what must stay in it (`flat`)."""

    name: ClassVar[str] = "left"
    time_s: float
    member: str
    why: str
    flat: bool = False

    @classmethod
    def of(cls, read: Fields) -> Left:
        """Read what was written."""
        return cls(_time(read), read.text("member", most=NAME), read.text("why"), read.flag("flat"))


@dataclass(frozen=True)
class Sent:
    """Steps of a job, from `first` on, were given to a member; the number is never used again."""

    name: ClassVar[str] = "sent"
    time_s: float
    chunk: int
    job: str
    member: str
    first: int
    steps: int
    energy_j: float

    @classmethod
    def of(cls, read: Fields) -> Sent:
        """Read what was written."""
        return cls(
            time_s=_time(read),
            chunk=read.whole("chunk", least=1, most=MOST_STEPS),
            job=read.text("job", most=NAME),
            member=read.text("member", most=NAME),
            first=read.whole("first", most=MOST_STEPS),
            steps=read.whole("steps", least=1, most=MOST_STEPS),
            energy_j=read.number("energy_j", above=0, most=MOST_J),
        )


@dataclass(frozen=True)
class Paid:
    """What a chunk took, by the member's own meter, and the steps that count of it.

    A chunk whose steps are done by somebody else, or that broke off without a checkpoint, was paid
    for nothing: no step counts.
    """

    name: ClassVar[str] = "paid"
    time_s: float
    chunk: int
    steps: int
    energy_j: float
    meter_j: float
    provenance: Provenance
    battery_j: float | None = None
    checkpoint: str | None = None

    @classmethod
    def of(cls, read: Fields) -> Paid:
        """Read what was written."""
        steps = read.whole("steps", most=MOST_STEPS)
        return cls(
            time_s=_time(read),
            chunk=read.whole("chunk", least=1, most=MOST_STEPS),
            steps=steps,
            energy_j=read.number("energy_j", least=0, most=MOST_J),
            meter_j=read.number("meter_j", least=0, most=MOST_J),
            provenance=_provenance(read),
            battery_j=read.number("battery_j", None, least=0, most=MOST_J),
            checkpoint=_digest(read, "checkpoint") if steps else None,
        )


@dataclass(frozen=True)
class Broken:
    """A chunk that its member will not bring back; if it returns, its meter tells what it took."""

    name: ClassVar[str] = "broken"
    time_s: float
    chunk: int
    why: str

    @classmethod
    def of(cls, read: Fields) -> Broken:
        """Read what was written."""
        return cls(_time(read), read.whole("chunk", least=1, most=MOST_STEPS), read.text("why"))


Event: TypeAlias = Opened | Planned | Joined | Left | Sent | Paid | Broken
KINDS: Sequence[type[Event]] = (Opened, Planned, Joined, Left, Sent, Paid, Broken)
_READERS: Mapping[str, Callable[[Fields], Event]] = {kind.name: kind.of for kind in KINDS}


def event_json(event: Event) -> dict[str, Json]:
    """An event as plain data; what is not known is left out."""
    row = {"event": event.name, **asdict(event)}
    return {name: value for name, value in row.items() if value is not None}


def read_event(row: Json) -> Event:
    """An event of a line.

    Raises:
        DataError: It is something else.
    """
    read = Fields(row)
    kind = read.choice("event", tuple(_READERS))
    event = _READERS[kind](read)
    known = {"event", *(field.name for field in fields(event))}
    for name in read.names(most=50):
        if name not in known:
            raise DataError(f"{read.place(name)} is unknown in an event of the kind {kind}")
    return event


def _time(read: Fields) -> float:
    return read.number("time_s", least=0, most=MOST_S)


def _provenance(read: Fields) -> Provenance:
    return Provenance(read.choice("provenance", PROVENANCES))


def _digest(read: Fields, name: str) -> str:
    text = read.text(name, most=64)
    if not DIGEST.fullmatch(text):
        read.refuse(name, "64 hexadecimal digits")
    return text
