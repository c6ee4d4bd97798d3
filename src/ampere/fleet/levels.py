"""Levels: what a kilowatt-hour emits or costs while a plan runs, kept with the plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ampere.core.boundary.moments import parse_moment
from ampere.core.rates import Rate
from ampere.fleet.member import Fleet, Member
from ampere.fleet.plan import Level, Plan, Standing

QUARTER_S = 900.0
MOST_LEVELS = 400  # of a plan of months, means of longer spans


def with_levels(plan: Plan, fleet: Fleet) -> Plan:
    """The same plan, with what its members know of carbon and prices."""
    begins_s = parse_moment(plan.begins)
    until_s = max((each.end_s for each in plan.assignments), default=0.0)
    standings = [_told(each, fleet.find(each.member), begins_s, until_s) for each in plan.standings]
    return replace(plan, standings=tuple(standings))


def levels_of(rate: Rate | None, begins_s: float, until_s: float) -> tuple[Level, ...]:
    """A rate from the beginning of a plan to its end, a level wherever it changes."""
    if rate is None:
        return ()
    if rate.hours is None or until_s <= 0:
        return (Level(0.0, rate.during(begins_s, begins_s).per_kwh),)
    return tuple(_changes(rate, begins_s, until_s))


def _told(standing: Standing, member: Member, begins_s: float, until_s: float) -> Standing:
    return replace(
        standing,
        carbon=levels_of(member.carbon, begins_s, until_s),
        price=levels_of(member.price, begins_s, until_s),
        currency="" if member.price is None else member.price.unit,
    )


def _changes(rate: Rate, begins_s: float, until_s: float) -> Iterator[Level]:
    step_s = max(QUARTER_S, until_s / MOST_LEVELS)
    number, at_s, last = math.floor(begins_s / step_s), 0.0, None
    while at_s < until_s:
        number += 1  # counted: a moment that is added up may stand still by rounding
        end_s = step_s * number - begins_s  # hours change on the hour
        per_kwh = rate.during(begins_s + at_s, begins_s + end_s).per_kwh
        if per_kwh != last:
            yield Level(at_s, per_kwh)
        at_s, last = end_s, per_kwh
