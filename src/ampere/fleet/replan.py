"""replan: some of it ran, batteries are where they are, and the rest is planned again.

    done = [Done("digits", "phone", steps=4000, energy_j=310.0, time_s=95.0)]
    plan = replan(plan, fleet_now, tasks, done, now_s=600)

What ran teaches the members' profiles (`learned`), as far as it was metered as they were; what is
left of a task is a task.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ampere.core.boundary.moments import parse_moment
from ampere.errors import AmpereError, DataError
from ampere.fleet.costs import ask
from ampere.fleet.member import Battery, Charging, Fleet, Member, Span
from ampere.fleet.plan import Plan, Unplaced
from ampere.fleet.schedule import schedule
from ampere.fleet.task import Task
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement, utc


@dataclass(frozen=True)
class Done:
    """Steps of a job that ran on a member, and what was metered meanwhile.

    Args:
        job: The task's name.
        member: Who ran them.
        steps: How many.
        energy_j: What they took, with validation and loading where the job has them; None if
            nobody metered.
        time_s: Seconds of them.
        provenance: Where the joules come from; as those of the member's profile if nothing is said.
    """

    job: str
    member: str
    steps: int
    energy_j: float | None = None
    time_s: float | None = None
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise DataError(f"job {self.job}: {self.steps} steps cannot have run")
        for value in (self.energy_j, self.time_s):
            if value is not None and not 0 < value < math.inf:
                raise DataError(f"job {self.job}: {value} is no metered joules or seconds")


def replan(
    plan: Plan,
    fleet: Fleet,
    tasks: Sequence[Task],
    done: Sequence[Done],
    *,
    now_s: float,
    learn: bool = True,
    objective: str | Mapping[str, float] | None = None,
) -> Plan:
    """Plan what is left, from this moment on.

    Args:
        plan: As it was made; confidence and objective stay what they were.
        fleet: As it is now: its seconds count from now (`as_of`), its batteries are read now.
        tasks: All of them, as they were given: their seconds count from the plan's begin.
        done: What ran since.
        now_s: Seconds since the plan began.
        learn: Whether metered joules teach the members' profiles; the plan warns of those that
            cannot.
        objective: Another one.

    Raises:
        DataError: Something ran that nobody planned, or nothing is left to be planned.
    """
    return plan_rest(
        fleet,
        tasks,
        done,
        now_s=now_s,
        begins=utc(parse_moment(plan.begins) + now_s),
        confidence=plan.confidence,
        objective=plan.objective if objective is None else objective,
        learn=learn,
    )


def plan_rest(
    fleet: Fleet,
    tasks: Sequence[Task],
    done: Sequence[Done],
    *,
    now_s: float,
    begins: str,
    confidence: float,
    objective: str | Mapping[str, float],
    learn: bool = True,
) -> Plan:
    """The same, as `replan` and `schedule` take it: `begins` is the moment of `now_s`."""
    rest, late = remaining(fleet, tasks, done, now_s)
    if not rest and not late:
        raise DataError("all jobs are done: there is nothing to plan again")
    if not rest:
        told = "; ".join(f"{each.job}: {each.reason}" for each in late)
        raise DataError(f"nothing is left that can be planned: {told}")
    fleet, notes = learned(fleet, tasks, done) if learn else (fleet, ())
    again = schedule(fleet, rest, confidence=confidence, objective=objective, begins=begins)
    return replace(
        again,
        unplaced=(*again.unplaced, *late),
        warnings=(*again.warnings, *notes),
    )


def as_of(fleet: Fleet, now_s: float, charges_j: Mapping[str, float]) -> Fleet:
    """The fleet with seconds that count from now, and batteries as they are read now.

    A member that is not there any more in time is left out.
    """
    members = []
    for member in fleet:
        available = [_later(span, now_s) for span in member.available if span.end_s > now_s]
        charging = [
            Charging(_later(each.span, now_s), each.power_w)
            for each in member.charging
            if each.span.end_s > now_s
        ]
        if available:
            battery = _charged(member, charges_j)
            members.append(
                replace(
                    member,
                    battery=battery,
                    available=tuple(available),
                    charging=tuple(charging),
                )
            )
    if not members:
        raise DataError("no member of the fleet is there any more: give them later times")
    return Fleet(tuple(members))


def _later(span: Span, now_s: float) -> Span:
    return Span(max(0.0, span.start_s - now_s), span.end_s - now_s)


def _charged(member: Member, charges_j: Mapping[str, float]) -> Battery | None:
    if member.battery is None or member.name not in charges_j:
        return member.battery
    return replace(member.battery, energy_j=charges_j[member.name])


def remaining(
    fleet: Fleet, tasks: Sequence[Task], done: Sequence[Done], now_s: float
) -> tuple[list[Task], list[Unplaced]]:
    """What is left of the tasks, from now on; those whose deadline has passed stand apart."""
    ran: dict[str, int] = defaultdict(int)
    for each in done:
        if each.job not in {task.name for task in tasks}:
            raise DataError(f"job {each.job} ran, but it is none of the tasks")
        ran[each.job] += each.steps
    names = {member.name for member in fleet}
    rest, late = [], []
    for task in tasks:
        left = _left(fleet, task, ran[task.name])
        if left is None:
            continue
        if task.deadline_s is not None and task.deadline_s <= now_s:
            late.append(Unplaced(task.name, "its deadline has passed", "give it a later deadline"))
            continue
        gone = set(task.members) - names
        if gone and gone == set(task.members):
            told = f"{', '.join(sorted(gone))} is not in the fleet any more"
            late.append(Unplaced(task.name, told, "let another member run it"))
            continue
        rest.append(
            replace(
                left,
                earliest_s=max(0.0, task.earliest_s - now_s),
                deadline_s=None if task.deadline_s is None else task.deadline_s - now_s,
                members=tuple(name for name in task.members if name in names),
            )
        )
    return rest, late


def _left(fleet: Fleet, task: Task, ran: int) -> Task | None:
    """The task without the steps that ran; None if that were all."""
    may = [each for each in fleet if not task.members or each.name in task.members]
    training = task.training or (may or fleet.members)[0].profile.training
    steps, job = task.job.count(training.batch_size).steps, task.job
    if ran >= steps:
        return None
    if not ran:
        return task
    return replace(task, job=job.remaining(steps - ran, steps))


def learned(
    fleet: Fleet, tasks: Sequence[Task], done: Sequence[Done]
) -> tuple[Fleet, tuple[str, ...]]:
    """The fleet whose profiles know what was metered, and why they do not know the rest.

    Files stay as they are; what ran on others tells nothing of these members.
    """
    by_name = {task.name: task for task in tasks}
    profiles, notes = {member.name: member.profile for member in fleet}, []
    for each in done:
        if each.energy_j is None or not each.steps or each.member not in profiles:
            continue
        member = replace(fleet.find(each.member), profile=profiles[each.member])
        try:
            row = lesson_of(member, by_name[each.job], each)
            profiles[each.member] = member.profile.tell(row)
        except AmpereError as error:  # it ran all the same
            notes.append(f"what {each.job} took on {each.member} is not learned: {error}")
    members = (replace(each, profile=profiles[each.name]) for each in fleet)
    return Fleet(tuple(members)), tuple(notes)


def lesson_of(member: Member, task: Task, done: Done, sitting: str = "") -> Measurement:
    """The job's mean step as a row for a profile, without validation and loading as estimated.

    Raises:
        AmpereError: It teaches nothing, and why.
    """
    profile = member.profile
    provenance = done.provenance or profile.provenance
    if done.energy_j is None or not done.steps:
        raise DataError("nobody metered a step of it")
    if profile.provenance is not provenance:
        raise DataError(
            f"its joules are {provenance.origin}, those of the profile {profile.provenance.origin}"
        )
    asked = ask(member, replace(task, members=()))
    step, whole = asked.step, asked.whole
    energy_j = done.energy_j / done.steps
    time_s = None if done.time_s is None else done.time_s / done.steps
    if not task.job.is_plain:  # of steps alone there is nothing to estimate: the row stays the same
        energy_j *= step.energy_j * whole.steps / whole.energy_j
        if time_s is not None and whole.time_s is not None and step.time_s is not None:
            time_s *= step.time_s * whole.steps / whole.time_s
        else:
            time_s = None
    return Measurement(
        asked.layers,
        energy_j,
        time_s,
        device=profile.measurements[0].device,
        provenance=provenance,
        sitting=sitting,
    )
