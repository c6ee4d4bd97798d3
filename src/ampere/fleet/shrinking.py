"""Shrinking: the network that a pruned job trains: every width that may be cut, cut alike.

    50 % of its joules ──▶ the widest network that stays below that on each of its members

Jobs of a fleet are trained from their first step, so no channel is worth more than another yet:
which to keep of a trained model is the room `pruning`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ampere.core.choices import Place, at_widths, choices
from ampere.core.layers import Layer
from ampere.core.units import percent
from ampere.errors import AmpereError, DataError
from ampere.fleet.costs import ask
from ampere.fleet.member import Fleet, Member
from ampere.fleet.plan import Plan
from ampere.fleet.task import Task

LEAST, WHOLE = 10, 100  # hundredths of widths


def narrowed(layers: Sequence[Layer], hundredths: int) -> tuple[Layer, ...]:
    """The same network with so much of each free width, one of its steps at least."""
    new: dict[Place, int] = {}
    for choice in choices(layers):
        if not choice.fixed:
            steps = choice.size // choice.step
            new |= choice.at(choice.step * max(1, hundredths * steps // WHOLE))
    return at_widths(layers, new)


def share_of(member: Member, task: Task, hundredths: int) -> float:
    """What the job takes on a member with so much of its widths, as a share of the whole one.

    Raises:
        AmpereError: The member cannot run it, or nobody knows what its layers are made of.
    """
    whole = ask(member, task)
    narrow = replace(task, model=narrowed(whole.layers, hundredths), input=None)
    return ask(member, narrow).whole.energy_j / whole.whole.energy_j


def can_shrink(member: Member, task: Task, share: float) -> bool:
    """Whether a member has a network of the job that takes no more than a share of it."""
    try:
        return share_of(member, task, LEAST) <= share
    except AmpereError:
        return False


def attainable(fleet: Fleet, tasks: Sequence[Task]) -> tuple[list[Task], list[str]]:
    """The tasks, none of which asks for more than pruning can do, and what changed by that."""
    told, texts = [], []
    for task in tasks:
        if task.shrink is not None:
            task, text = _attainable(fleet, task, task.shrink)
            texts += [text] if text else []
        told.append(task)
    return told, texts


def _attainable(fleet: Fleet, task: Task, shrink: float) -> tuple[Task, str]:
    able, shares = _able(fleet, task), []
    try:
        shares = [share_of(member, task, LEAST) for member in able]
    except AmpereError as error:
        return replace(task, shrink=None), f"job {task.name} cannot be pruned: {error}"
    least = max(shares, default=0.0)
    if least <= shrink:
        return task, ""
    # Rounded up, so that a network of that share is there.
    least = math.ceil(1000 * least) / 1000
    text = f"job {task.name} cannot be pruned below {percent(least)} of its joules"
    return replace(task, shrink=least if least < 1 else None), text


def _able(fleet: Fleet, task: Task) -> list[Member]:
    """Who could run it at all."""
    able = []
    for member in fleet:
        try:
            ask(member, task)
        except AmpereError:
            continue
        able.append(member)
    return able


def settled(plan: Plan, fleet: Fleet, tasks: Sequence[Task]) -> list[Task]:
    """The tasks as a plan has them trained: pruned ones by their layers, once and for all.

    Raises:
        DataError: The plan prunes more than can be cut.
    """
    return [_settled(plan, fleet, task) for task in tasks]


def _settled(plan: Plan, fleet: Fleet, task: Task) -> Task:
    ours = [each for each in plan.assignments if each.job == task.name]
    share = min((each.share for each in ours), default=1.0)
    fixed = replace(task, shrink=None)  # what has begun cannot be pruned further
    if share >= 1:
        return fixed
    members = [fleet.find(name) for name in dict.fromkeys(each.member for each in ours)]
    hundredths = _widest(members, task, share)
    layers = narrowed(ask(members[0], task).layers, hundredths)
    return replace(fixed, model=layers, input=None)


def _widest(members: Sequence[Member], task: Task, share: float) -> int:
    """How much of the widths stays within a share on all of these members."""

    def fits(hundredths: int) -> bool:
        return all(share_of(member, task, hundredths) <= share for member in members)

    low, high = LEAST, WHOLE
    if not fits(low):
        raise DataError(
            f"job {task.name} is pruned to {percent(share)} of its joules in the plan, which no"
            " widths reach: plan again"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
