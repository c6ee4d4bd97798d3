"""Overview: how a running fleet stands, from its book alone."""

from __future__ import annotations

import math

from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.fleet.runs.book import Book, JobLine, MemberLine, expected_j


def overview(book: Book) -> Page:
    """A line for each member, and how far the jobs are."""
    done = sum(line.left == 0 for line in book.jobs.values())
    return Page(
        f"{done} of {units.plural(len(book.jobs), 'job')} done;"
        f" {units.joules(book.paid_j)} paid, {units.joules(book.wasted_j)} of them for nothing",
        headers=("member", "state", "at", "planned", "paid", "for nothing", "battery", "joules"),
        rows=[_member(book, name, line) for name, line in book.members.items()],
        align="<<<>>>><",
        facts=[
            *((f"job {name}", _job(book, name, line)) for name, line in book.jobs.items()),
            *(("not known yet", text) for text in _unsettled(book)),
            *((f"{name}", text) for name, text in _other(book)),
            (
                "plans",
                f"{book.plans}; the last event was {units.seconds(book.time_s)} after it began",
            ),
        ],
    )


def _member(book: Book, name: str, line: MemberLine) -> tuple[str, ...]:
    chunk = book.running_of(name)
    state = "here" if line.here else "flat" if line.flat else line.why
    battery = "mains"
    if line.account.capacity_j is not None:
        battery = units.joules(line.battery_j or 0.0)
    return (
        name,
        state,
        "" if chunk is None else chunk.sent.job,
        units.joules(expected_j(book.queue(name))),
        units.joules(line.paid_j),
        units.joules(line.wasted_j),
        battery,
        units.UNKNOWN if line.provenance is None else line.provenance.metered,
    )


def _job(book: Book, name: str, line: JobLine) -> str:
    steps = f"{units.number(line.done)} of {units.plural(line.order.steps, 'step')}"
    parts = [steps, units.joules(line.energy_j)]
    chunk = book.running_job(name)
    if chunk is not None:
        parts.append(f"at {chunk.sent.member}")
    if line.left and name in book.unplaced:
        parts.append(f"fits nowhere: {book.unplaced[name]}")
    return ", ".join(parts)


def _unsettled(book: Book) -> list[str]:
    return [
        f"what steps {chunk.sent.first + 1} to {chunk.sent.first + chunk.sent.steps} of"
        f" {chunk.sent.job} took on {chunk.sent.member} ({chunk.broken}); about"
        f" {units.joules(chunk.sent.energy_j)} at most, until it joins again"
        for chunk in book.unsettled()
    ]


def _other(book: Book) -> list[tuple[str, str]]:
    return [
        (name, f"{units.joules(line.other_j)} of its meter are of no job")
        for name, line in book.members.items()
        if line.other_j
    ]


def overview_json(book: Book) -> dict[str, Json]:
    """Plain data, as `ampere fleet status --json` prints it."""
    return {
        "run": book.opened.run,
        "begins": book.opened.begins,
        "time_s": book.time_s,
        "ended": book.ended,
        "paid_j": book.paid_j,
        "wasted_j": book.wasted_j,
        "plans": book.plans,
        "jobs": [
            {
                "job": name,
                "steps": line.order.steps,
                "done": line.done,
                "energy_j": line.energy_j,
                "wasted_j": line.wasted_j,
                "unplaced": book.unplaced.get(name) if line.left else None,
            }
            for name, line in book.jobs.items()
        ],
        "members": [_member_json(book, name, line) for name, line in book.members.items()],
        "unsettled": [
            {"job": chunk.sent.job, "member": chunk.sent.member, "energy_j": chunk.sent.energy_j}
            for chunk in book.unsettled()
        ],
    }


def _member_json(book: Book, name: str, line: MemberLine) -> dict[str, Json]:
    return {
        "member": name,
        "here": line.here,
        "flat": line.flat,
        "why": line.why,
        "planned_j": expected_j(book.queue(name)),
        "paid_j": line.paid_j,
        "wasted_j": line.wasted_j,
        "metered_j": line.metered_j,
        "other_j": line.other_j,
        "battery_j": line.battery_j,
        "usable_j": line.usable_j if math.isfinite(line.usable_j) else None,
        "provenance": None if line.provenance is None else line.provenance.value,
    }
