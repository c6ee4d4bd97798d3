"""The page of a plan: who runs what and when, how batteries stand, and what was not placed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ampere.core import units
from ampere.core.rates import GRAMS, J_PER_KWH
from ampere.fleet.plan import Assignment, Level, Plan, Standing
from ampere.reports.html import Report
from ampere.reports.labels import moment
from ampere.reports.parts import Facts, Part, Section, Table, Text, Timeline
from ampere.reports.timeline import Clock, timeline

NOTHING_TO_WARN_OF = "Nothing to warn of: all jobs are placed, and joules are measured ones."
HOW_TO_READ = (
    "Times count from the beginning of the plan. Bars are jobs as long as they are expected to"
    " take; the line is the battery as expected, the band 90 % of what it may be: errors of one"
    " profile are shared by all jobs of a device, so they add up instead of levelling out. The"
    " reserve is kept until a device's last job has ended."
)


def report_plan(plan: Plan) -> Report:
    """A page on who runs what, and when."""
    jobs = units.plural(_count(plan), "job")
    devices = units.plural(len(plan.standings), "device")
    sure = units.percent(plan.confidence)
    return Report(
        title=f"A plan: {jobs} on {devices}",
        lead=f"Begins {moment(plan.begins)}. The least {plan.objective} that was found, such that"
        f" each battery holds for its whole queue and each deadline is kept, with {sure}.",
        highlights=tuple(_highlights(plan)),
        sections=(
            *_unplaced_section(plan),
            Section("Who runs what, and when", tuple(_timelines(plan))),
            Section("Read with care", tuple(_cautions(plan))),
            Section("Devices", (_devices(plan),)),
            Section("Jobs", (_jobs(plan),)),
            Section("How good it is", (_quality(plan),)),
        ),
    )


def _highlights(plan: Plan) -> Iterator[tuple[str, str]]:
    yield units.joules(plan.energy_j), f"expected; joules are {_listed(_origins(plan))}"
    yield units.seconds(_until_s(plan)), "until the last job has ended, as expected"
    if plan.bound > 0:
        yield units.percent(plan.gap), "above the best plan that can be, at most"
    asked = [each for each in plan.standings if each.capacity_j is not None and each.energy_j]
    weakest = min(asked, key=lambda each: each.p_battery, default=None)
    if weakest is not None:
        yield units.percent(weakest.p_battery), f"the least sure battery: {weakest.member}"
    yield units.number(len(plan.unplaced)), f"of {units.plural(_count(plan), 'job')} not placed"


def _unplaced_section(plan: Plan) -> Iterator[Section]:
    if plan.unplaced:
        rows = [(each.job, each.reason, each.change or "none was found") for each in plan.unplaced]
        headers = ("job", "why", "the least change that would let it fit")
        yield Section("Not placed", (Table(headers, rows, "<<<"),))


def _cautions(plan: Plan) -> Iterator[Part]:
    texts = list(plan.warnings)
    unlike = [each for each in _origins(plan) if each != "measured"]
    if unlike:
        texts.append(
            f"Joules of this plan are {_listed(_origins(plan))}: what is not measured ranks"
            " devices, and promises no battery."
        )
    yield from (Text(text, warning=True) for text in texts)
    if not texts:
        yield Text(NOTHING_TO_WARN_OF if not plan.unplaced else "Joules are measured ones.")


def _origins(plan: Plan) -> list[str]:
    """How joules of the devices that run something may be called, each once."""
    busy = [each for each in plan.standings if each.energy_j] or plan.standings
    return list(dict.fromkeys(map(_origin, busy))) or [units.UNKNOWN]


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _origin(standing: Standing) -> str:
    return "of mixed origin" if standing.provenance is None else standing.provenance.metered


def _timelines(plan: Plan) -> Iterator[Part]:
    yield Text(HOW_TO_READ)
    clock = Clock(_until_s(plan) or 3600.0)
    for standing in plan.standings:
        jobs = plan.of_member(standing.member)
        note = _note(standing, jobs)
        svg = timeline(standing, jobs, clock, title=standing.member, description=note)
        yield Timeline(standing.member, note, svg)


def _note(standing: Standing, jobs: Sequence[Assignment]) -> str:
    """What there is to say of a device, above its time."""
    if not jobs:
        return f"{standing.device} · nothing to run"
    texts = [
        standing.device,
        units.plural(len({job.job for job in jobs}), "job"),
        f"{units.joules(standing.energy_j)}, {_origin(standing)}",
    ]
    if standing.capacity_j is not None:
        texts.append(f"its battery holds with {units.percent(standing.p_battery)}")
    for levels, unit in ((standing.carbon, GRAMS), (standing.price, standing.currency)):
        if len(levels) == 1:
            texts.append(f"{levels[0].per_kwh:.3g} {unit} a kWh")
    return " · ".join(texts)


def _devices(plan: Plan) -> Table:
    headers = ("member", "device", "joules", "jobs", "busy", "energy", "90 % interval")
    rows = [
        (
            standing.member,
            standing.device,
            _origin(standing),
            units.number(len({job.job for job in jobs})),
            units.seconds(math.fsum(job.end_s - job.start_s for job in jobs)),
            units.joules(standing.energy_j),
            _between(standing.energy_j_interval),
            _left(standing),
            units.percent(standing.p_battery) if standing.capacity_j and jobs else "",
        )
        for standing in plan.standings
        for jobs in (plan.of_member(standing.member),)
    ]
    return Table((*headers, "battery after", "holds with"), rows, "<<<>>>>>>")


def _left(standing: Standing) -> str:
    """What a battery has in the end, of what it holds."""
    if standing.capacity_j is None:
        return "mains"
    if not standing.charges:
        return units.UNKNOWN
    last = standing.charges[-1]
    return f"{units.joules(last.energy_j)} of {units.joules(standing.capacity_j)}"


def _jobs(plan: Plan) -> Table:
    headers = ("job", "member", "starts", "ends", "steps", "energy", "90 % interval")
    rows = [
        (
            each.job,
            each.member,
            _moment(each.start_s),
            _moment(each.end_s),
            units.number(each.steps),
            units.joules(each.energy_j),
            _between(each.energy_j_interval),
            units.percent(each.p_battery),
            units.percent(each.p_deadline),
            "" if each.share == 1 else f"pruned to {units.percent(each.share)}",
        )
        for each in plan.assignments
    ]
    return Table((*headers, "battery lasts", "in time", ""), rows, "<<>>>>>>><")


def _quality(plan: Plan) -> Facts:
    rows = [
        ("objective", plan.objective),
        ("energy", f"{units.joules(plan.energy_j)} expected, {_listed(_origins(plan))}"),
        ("bound", f"no plan of these jobs takes less than {units.joules(plan.bound_j)}"),
        ("gap", f"by its objective at most {units.percent(plan.gap)} above the best plan"),
        ("confidence", f"{units.percent(plan.confidence)}, of each whole battery and deadline"),
        ("begins", moment(plan.begins)),
    ]
    if plan.bound <= 0:
        rows = [row for row in rows if row[0] not in ("bound", "gap")]
    return Facts([*rows, *_emitted(plan)])


def _emitted(plan: Plan) -> Iterator[tuple[str, str]]:
    """Grams and money of the joules, at the rates of when they are spent."""
    emitted = [(each.carbon, GRAMS) for each in plan.standings]
    paid = [(each.price, each.currency) for each in plan.standings]
    for name, rates in (("emits", emitted), ("costs", paid)):
        busy = [
            (levels, unit, plan.of_member(standing.member))
            for standing, (levels, unit) in zip(plan.standings, rates, strict=True)
            if standing.energy_j
        ]
        if (
            busy
            and all(levels for levels, _, _ in busy)
            and len({unit for _, unit, _ in busy}) == 1
        ):
            total = math.fsum(spent_at(levels, job) for levels, _, jobs in busy for job in jobs)
            unit = busy[0][1]
            yield name, units.grams(total) if unit == GRAMS else f"{total:.3g} {unit}"


def spent_at(levels: Sequence[Level], job: Assignment) -> float:
    """What a job's joules emit or cost: they are spent evenly, each at the rate of its moment."""
    length = max(job.end_s - job.start_s, 1e-9)
    ends = [*(level.time_s for level in levels[1:]), math.inf]
    mean = math.fsum(
        level.per_kwh * max(0.0, min(end_s, job.end_s) - max(level.time_s, job.start_s)) / length
        for level, end_s in zip(levels, ends, strict=True)
    )
    return mean * job.energy_j / J_PER_KWH


def _count(plan: Plan) -> int:
    """Jobs that were to be placed; one that only a part of was placed of counts once."""
    placed = {each.job for each in plan.assignments}
    return len(placed | {each.job for each in plan.unplaced})


def _until_s(plan: Plan) -> float:
    return max((each.end_s for each in plan.assignments), default=0.0)


def _between(interval_j: tuple[float, float]) -> str:
    return " to ".join(map(units.joules, interval_j))


def _moment(time_s: float) -> str:
    return units.seconds(time_s) if time_s else "at once"
