"""Member: a device of a fleet, with what it has to spend and when it is there.

Seconds count from the moment that the plan begins at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ampere.core.rates import Rate
from ampere.errors import DataError
from ampere.profiles.profile import Profile


@dataclass(frozen=True)
class Span:
    """From one moment to another."""

    start_s: float
    end_s: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.start_s < self.end_s:
            raise DataError(f"from {self.start_s} s to {self.end_s} s is no span of time")


@dataclass(frozen=True)
class Charging:
    """A time in which a battery is charged with so many watts."""

    span: Span
    power_w: float

    def __post_init__(self) -> None:
        if not 0 < self.power_w < math.inf or not self.span.end_s < math.inf:
            raise DataError("charging takes watts above 0, and ends")


@dataclass(frozen=True)
class Battery:
    """Joules that it has now, that it can hold, and that must stay in it."""

    energy_j: float
    capacity_j: float
    reserve_j: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.capacity_j < math.inf:
            raise DataError(f"a battery of {self.capacity_j} J holds nothing")
        if not 0 <= self.energy_j <= self.capacity_j:
            raise DataError(
                f"a battery of {self.capacity_j:g} J cannot hold {self.energy_j:g} J:"
                " charge is from 0 to its capacity"
            )
        if not 0 <= self.reserve_j < self.capacity_j:
            raise DataError(f"a reserve of {self.reserve_j:g} J leaves nothing of a battery")

    @property
    def usable_j(self) -> float:
        """What may be spent of what it has now."""
        return max(0.0, self.energy_j - self.reserve_j)


@dataclass(frozen=True)
class Member:
    """A device of a fleet.

    Args:
        name: Of its own in the fleet.
        profile: What it taught us.
        battery: What it runs on; None if that is the mains.
        charging: When its battery is charged.
        idle_w: Watts that it takes of its battery while it runs no job.
        available: When it may run jobs; always if nothing is said.
        slots: Jobs that it runs at once.
        carbon: What a kilowatt-hour emits there, by the hour if that is known.
        price: What it costs there.
    """

    name: str
    profile: Profile
    battery: Battery | None = None
    charging: tuple[Charging, ...] = ()
    idle_w: float = 0.0
    available: tuple[Span, ...] = (Span(0.0),)
    slots: int = 1
    carbon: Rate | None = None
    price: Rate | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise DataError("a member of a fleet needs a name")
        if self.charging and self.battery is None:
            raise DataError(f"member {self.name}: what has no battery cannot be charged")
        if not 0 <= self.idle_w < math.inf:
            raise DataError(f"member {self.name}: idle watts are 0 or more")
        if self.slots < 1:
            raise DataError(f"member {self.name}: it must run one job at least")
        if not self.available:
            raise DataError(f"member {self.name}: it is never there")


@dataclass(frozen=True)
class Fleet:
    """Devices that jobs may run on."""

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise DataError("a fleet without members runs nothing")
        refuse_twins([member.name for member in self.members], "member")

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def find(self, name: str) -> Member:
        """The member of this name.

        Raises:
            DataError: There is none.
        """
        for member in self.members:
            if member.name == name:
                return member
        names = ", ".join(member.name for member in self.members)
        raise DataError(f"there is no member {name} in the fleet: it has {names}")


def refuse_twins(names: Sequence[str], what: str) -> None:
    """Two of one name cannot be told apart."""
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"there are two {what}s of the name {name}: give each its own")
