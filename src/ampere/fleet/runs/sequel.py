"""Sequel: what a run has left, planned from its logbook.

logbook ──▶ steps that are done, joules that were metered, what batteries held last
files   ──▶ who is there now, and which jobs there are
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ampere.core import units
from ampere.core.boundary.moments import parse_moment
from ampere.errors import DataError
from ampere.fleet.member import Fleet
from ampere.fleet.plan import Plan
from ampere.fleet.replan import as_of, plan_rest
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.events import Opened
from ampere.fleet.runs.remainder import done_by, held_by
from ampere.fleet.task import Task

SLACK_S = 1.0  # moments are told in whole seconds
SAME = 1e-9  # of joules that were written and read again


def plan_after(
    book: Book,
    fleet: Fleet,
    tasks: Sequence[Task],
    opened: Opened,
    *,
    begins: str,
    confidence: float = 0.9,
    objective: str | Mapping[str, float] = "energy",
    charged: Collection[str] = (),
) -> Plan:
    """Plan what a run has left.

    Args:
        book: Of the run.
        fleet: Who is there now; seconds count from when the run began. A battery holds what the
            logbook told last, unless the fleet says something else than it did then, or `charged`
            names it; a warning tells of each that holds something else than the fleet says.
        tasks: What was to be trained; those that the run does not know are planned whole.
        opened: How a logbook of this fleet and these tasks would open, to be compared.
        begins: The moment that the rest begins at, ISO 8601.
        confidence: As for `schedule`.
        objective: As for `schedule`.
        charged: Members whose batteries hold what the fleet says, whatever the logbook told.

    Raises:
        DataError: The logbook is of others, or nothing is left to be planned.
    """
    _refuse_others(book, opened)
    for name in charged:
        fleet.find(name)
    now_s = parse_moment(begins) - parse_moment(book.opened.begins)
    if now_s < book.time_s - SLACK_S:
        raise DataError(
            f"the run went on until {units.seconds(book.time_s)} after it began: what is left"
            " cannot begin before that"
        )
    names, held_j = {task.name for task in tasks}, _held(book, fleet, charged)
    plan = plan_rest(
        as_of(fleet, now_s, held_j),
        [_settled(book, task) for task in tasks],
        [each for each in done_by(book) if each.job in names],
        now_s=now_s,
        begins=begins,
        confidence=confidence,
        objective=objective,
    )
    notes = (*_held_notes(fleet, held_j), *_absent(book, fleet))
    return replace(plan, warnings=(*plan.warnings, *notes))


def _refuse_others(book: Book, opened: Opened) -> None:
    """Jobs and members that are called the same must be the same."""
    known = {name: line.order for name, line in book.jobs.items()}
    ours = {order.job: order for order in opened.orders}
    if known and not known.keys() & ours.keys():
        raise DataError(f"the logbook is of other jobs: {', '.join(known)}")
    for name, order in ours.items():
        then = known.get(name, order)
        if (then.steps, then.digest) != (order.steps, order.digest):
            raise DataError(
                f"job {name} is another one than in the logbook, or was pruned there: leave it out;"
                " `ampere fleet run` goes on with it by itself"
            )
    for account in opened.accounts:
        line = book.members.get(account.member)
        if line is not None and line.account.device != account.device:
            raise DataError(
                f"member {account.member} is another device than in the logbook: give it a name of"
                " its own"
            )


def _settled(book: Book, task: Task) -> Task:
    """What a run has taken as it is cannot be pruned any more."""
    return replace(task, shrink=None) if task.name in book.jobs else task


def _held(book: Book, fleet: Fleet, charged: Collection[str]) -> dict[str, float]:
    """Batteries as the logbook told last, but those that somebody has looked at since."""
    held_j = {}
    for member in fleet:
        line, battery = book.members.get(member.name), member.battery
        if line is None or battery is None or member.name in charged:
            continue
        if line.account.energy_j is None:
            continue
        last_j = held_by(line)
        same = abs(battery.energy_j - line.account.energy_j) <= SAME * battery.capacity_j
        if last_j is not None and same:
            held_j[member.name] = min(last_j, battery.capacity_j)
    return held_j


def _held_notes(fleet: Fleet, held_j: Mapping[str, float]) -> list[str]:
    """Where the fleet's file does not count: one that is full again looks as it did at first."""
    notes = []
    for member in fleet:
        battery, last_j = member.battery, held_j.get(member.name)
        if battery is None or last_j is None:
            continue
        if abs(battery.energy_j - last_j) > SAME * battery.capacity_j:
            notes.append(
                f"{member.name} is taken to have {units.joules(last_j)} in its battery, as the run"
                f" told last, not {units.joules(battery.energy_j)}: if it was charged since, say"
                f" --charged {shlex.quote(member.name)}"
            )
    return notes


def _absent(book: Book, fleet: Fleet) -> list[str]:
    return [
        f"{member.name} had left the run ({line.why}): take it out of the fleet if it is not back"
        for member in fleet
        if (line := book.members.get(member.name)) is not None
        and not line.here
        and line.first_meter_j is not None
    ]
