"""What a logbook may tell: a job on two members, one of which is lost and comes back."""

from __future__ import annotations

from ampere.fleet.runs.events import (
    Account,
    Broken,
    Event,
    Joined,
    Left,
    Opened,
    Order,
    Paid,
    Planned,
    Portion,
    Sent,
)
from ampere.meters.base import Provenance

DIGEST = "ab" * 32
SIMULATED = Provenance.SIMULATED
OPENED = Opened(
    0.0,
    "run",
    "2026-01-01T00:00:00+00:00",
    (Account("a", "device", 100.0, 100.0, 10.0), Account("b", "device")),
    (Order("x", 20, 10, DIGEST),),
)
PLANNED = Planned(1.0, "the plan", (Portion("x", "a", 20, 40.0, 60.0),), {})
JOINED = Joined(1.0, "a", "device", SIMULATED, 5.0, 100.0)
SENT = Sent(2.0, 1, "x", "a", 0, 10, 20.0)
PAID = Paid(3.0, 1, 10, 21.0, 26.0, SIMULATED, 79.0, DIGEST)
STORY: tuple[Event, ...] = (
    *(OPENED, PLANNED, JOINED, SENT, PAID),
    Sent(4.0, 2, "x", "a", 10, 10, 20.0),
    Broken(5.0, 2, "its worker is gone"),
    Left(5.0, "a", "its worker is gone"),
    Joined(6.0, "a", "device", SIMULATED, 33.0, 72.0),
    Paid(7.0, 2, 0, 7.0, 33.0, SIMULATED, 72.0),
    Planned(8.0, "its worker is gone", (Portion("x", "b", 10, 30.0, 40.0),), {}),
)
