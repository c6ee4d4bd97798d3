"""A machine on which steps cost what a test says, and real gates that watch it."""

from __future__ import annotations

from typing import Any

from ampere.gates.gate import Gate
from ampere.gates.story import End, Reason, Start, Status
from ampere.gates.terms import Terms
from ampere.meters.drivers.fake import FakeMeter

STEP_J, STEP_S = 1.0, 0.5


class Heard:
    """A sink that keeps all."""

    def __init__(self) -> None:
        self.starts: list[Start] = []
        self.statuses: list[Status] = []
        self.ends: list[End] = []

    def start(self, start: Start) -> None:
        self.starts.append(start)

    def status(self, status: Status) -> None:
        self.statuses.append(status)

    def end(self, end: End) -> None:
        self.ends.append(end)


class Machine:
    """Steps advance its meter and its clock; nobody waits for them. One for each part of a run."""

    def __init__(self) -> None:
        self.meter = FakeMeter()
        self.heard = Heard()
        self.said: list[str] = []

    def work(self, energy_j: float = STEP_J, time_s: float = STEP_S) -> None:
        self.meter.advance(energy_j, time_s)

    def gate(self, budget_j: float | None, **terms: Any) -> Gate:
        return Gate(
            Terms(budget_j=budget_j, **terms),
            lambda: self.meter,
            sinks=[self.heard],
            watch=self.said.append,
            clock=lambda: self.meter.read().time_s,
        )

    @property
    def spent_j(self) -> float:
        return self.meter.read().energy_j

    @property
    def end(self) -> End:
        (end,) = self.heard.ends
        return end


def check_stopped(machine: Machine, budget_j: float) -> None:
    """It ended inside its budget, and not long before."""
    assert machine.end.reason is Reason.BUDGET
    assert machine.end.spent_j == machine.spent_j
    assert 0.8 * budget_j <= machine.spent_j <= budget_j


def check_resumed(first: Machine, second: Machine, steps: int) -> None:
    """It went on to its end, and has the joules of both parts."""
    assert second.heard.starts[-1].spent_j == first.end.spent_j
    assert second.heard.starts[-1].run == first.heard.starts[-1].run
    assert second.end.reason is Reason.FINISHED
    assert second.end.step == steps
    assert second.end.spent_j == first.spent_j + second.spent_j
