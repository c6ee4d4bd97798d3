"""The plan as it is printed: a line for each job, a fact for each member."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ampere.core import units
from ampere.core.page import Page
from ampere.meters.base import UNKNOWN_ORIGIN

if TYPE_CHECKING:
    from ampere.fleet.plan import Plan, Standing

HEADERS = (
    "job",
    "member",
    "start",
    "end",
    "steps",
    "energy",
    "90 % interval",
    "battery",
    "in time",
)


def page_of(plan: Plan) -> Page:
    """The table of a plan, with its gap and where its joules come from."""
    rows = []
    for each in plan.assignments:
        low, high = map(units.joules, each.energy_j_interval)
        steps = units.number(each.steps)
        steps += f" (pruned to {units.percent(each.share)})" if each.share < 1 else ""
        rows.append(
            (
                each.job,
                each.member,
                units.seconds(each.start_s),
                units.seconds(each.end_s),
                steps,
                units.joules(each.energy_j),
                f"{low} to {high}",
                units.percent(each.p_battery),
                units.percent(each.p_deadline),
            )
        )
    if not rows:
        return Page(_title(plan), facts=_facts(plan))
    return Page(_title(plan), headers=HEADERS, rows=rows, align="<<>>>>>>>", facts=_facts(plan))


def _title(plan: Plan) -> str:
    jobs = len({each.job for each in plan.assignments})
    members = len({each.member for each in plan.assignments})
    unplaced = f", {len(plan.unplaced)} not placed" if plan.unplaced else ""
    return (
        f"{units.plural(jobs, 'job')} on {units.plural(members, 'member')}{unplaced}:"
        f" {units.joules(plan.energy_j)} expected"
    )


def _facts(plan: Plan) -> list[tuple[str, str]]:
    gap = "" if plan.gap is None else f", at most {units.percent(plan.gap)} above the best plan"
    facts = [
        ("objective", f"{plan.objective}{gap}"),
        ("bound", f"no plan of these jobs takes less than {units.joules(plan.bound_j)}"),
        ("begins", plan.begins),
        ("confidence", units.percent(plan.confidence)),
    ]
    facts += [(each.member, _standing(each)) for each in plan.standings]
    for job in plan.unplaced:
        facts.append(("not placed", f"{job.job}: {job.reason}"))
        if job.change:
            facts.append(("change", f"{job.job}: {job.change}"))
    return [*facts, *(("warning", text) for text in plan.warnings)]


def _standing(standing: Standing) -> str:
    origin = standing.provenance.origin if standing.provenance else UNKNOWN_ORIGIN
    measured = origin.startswith("measured")
    told = f"estimated from joules {origin}" if measured else f"joules are {origin}"
    low, high = map(units.joules, standing.energy_j_interval)
    text = f"{units.joules(standing.energy_j)} ({low} to {high})" if standing.energy_j else "no job"
    if standing.capacity_j is not None:
        left = standing.charges[-1].energy_j if standing.charges else math.nan
        text += f", {units.joules(left)} of {units.joules(standing.capacity_j)} left"
        if standing.energy_j:
            text += f", holds with {units.percent(standing.p_battery)}"
    return f"{text}; {standing.device}, {told}"
