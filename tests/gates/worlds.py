"""A world in which a run's joules and seconds are known: a meter, a clock, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ampere.errors import MeterError
from ampere.gates.forecast import Prior
from ampere.gates.gate import Gate
from ampere.gates.story import End, Event, Start, Status
from ampere.gates.terms import Terms
from ampere.meters.base import Meter, Provenance, Reading, Resolution


class HandMeter(Meter):
    """Moved by hand; fails, or begins anew, when told to."""

    name = "hand"
    provenance = Provenance.SIMULATED
    summary = "moved by hand"

    def __init__(self, resolution: Resolution = Resolution()) -> None:
        self.energy_j = self.time_s = 0.0
        self.fault: Exception | None = None
        self.resolution = resolution
        self.reads = 0
        self.closed = False

    def read(self) -> Reading:
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        step_j = self.resolution.energy_j
        shown_j = self.energy_j // step_j * step_j if step_j else self.energy_j
        return Reading(shown_j, self.time_s, self.provenance)

    def close(self) -> None:
        self.closed = True


@dataclass
class Listener:
    """A sink that remembers."""

    events: list[Event] = field(default_factory=list)

    def start(self, start: Start) -> None:
        self.events.append(start)

    def status(self, status: Status) -> None:
        self.events.append(status)

    def end(self, end: End) -> None:
        self.events.append(end)

    @property
    def statuses(self) -> list[Status]:
        return [event for event in self.events if isinstance(event, Status)]

    @property
    def ends(self) -> list[End]:
        return [event for event in self.events if isinstance(event, End)]


class World:
    """Steps take what they are said to take, and nobody waits."""

    def __init__(self, meter: HandMeter | None = None) -> None:
        self.meter = meter or HandMeter()
        self.now_s = 100.0
        self.listener = Listener()
        self.said: list[str] = []

    def spend(self, energy_j: float, time_s: float) -> None:
        self.meter.energy_j += energy_j
        self.meter.time_s += time_s
        self.now_s += time_s

    def gate(self, budget_j: float | None = None, prior: Prior | None = None, **terms: Any) -> Gate:
        sinks = terms.pop("sinks", (self.listener,))
        story, outlook = terms.pop("story", None), terms.pop("outlook", None)
        return Gate(
            Terms(budget_j=budget_j, **terms),
            self.open_meter,
            prior=prior,
            outlook=outlook,
            sinks=sinks,
            story=story,
            watch=self.said.append,
            clock=lambda: self.now_s,
        )

    def open_meter(self) -> Meter:
        return self.meter

    def train(
        self,
        gate: Gate,
        steps: int,
        cost: Callable[[int], float] = lambda step: 2.0,
        time_s: float = 0.1,
    ) -> int:
        """Train in a plain loop; returns the steps that were begun."""
        begun = 0
        for step in gate.steps(range(steps)):
            begun += 1
            self.spend(cost(step), time_s)
        return begun


def broken_meter() -> Meter:
    raise MeterError("no counter here: run as root")


def counting(start: int = 0) -> Iterator[int]:
    """Batches without an end, and without a length."""
    while True:
        yield start
        start += 1
