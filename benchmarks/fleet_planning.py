"""Plans of random fleets: joules against a bound, an oracle, and simple rules.

A job's joules on a device are its size × the device's efficiency × how well the two suit each
other. `random` jobs are all different. `trace` is like what clusters tell: a few models that come
again and again, sizes with a long tail, devices of a few classes. The planner believes in
estimates; truth differs by a mood of each device (5 %) and an error of each job (3 %). The load is
what jobs would take at middling devices, over what batteries have.

All rules keep the same batteries with the same confidence, so none of them is reckless: what they
differ in is where jobs go. FLOPs know sizes and what a device takes for a FLOP on average.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from fleet_tables import markdown, percent

from ampere.core.arrays import Array
from ampere.core.fingerprint import Fingerprint
from ampere.fleet.costs import Costs
from ampere.fleet.member import Battery, Fleet, Member
from ampere.fleet.planning.assurance import reach_of
from ampere.fleet.planning.draft import Draft
from ampere.fleet.planning.greedy import Rule, cheapest, greedy
from ampere.fleet.planning.objective import Objective
from ampere.fleet.planning.problem import Problem, Sheet
from ampere.fleet.planning.solver import solve
from ampere.fleet.task import Task
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import Job
from ampere.profiles.profile import Profile
from ampere.records.journal import Header

SIZES = ((20, 5), (100, 10), (300, 20), (1000, 50), (3000, 50))
KINDS = ("random", "trace")
LARGE = 1000  # jobs beyond which one load is enough
BAR = (1000, 50)  # the size of which more is asked: within 3 % of the bound, in under 5 s
SEEDS = (1, 2, 3)  # draws of that size; one of each other
NEAR, SOON_S = 0.03, 5.0
LOADS = (0.8, 1.5)  # what jobs take at a middling device, over what batteries have
CONFIDENCE = 0.9
MOOD, OWN, SUITS = 0.05, 0.03, 0.3
NOBODY = Profile(
    (), Header(Fingerprint({"device": "none"}), {"name": "none"}, Provenance.SIMULATED)
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Instance:
    """What the planner believes, what is true, and what FLOPs would say."""

    fleet: Fleet
    tasks: list[Task]
    believed_j: Array
    true_j: Array
    flops_j: Array
    time_s: Array

    def problem(self, energy_j: Array, mood: float = MOOD, own: float = OWN) -> Problem:
        """As somebody sees it who believes in these joules."""
        costs = Costs.known(energy_j, self.time_s, mood=mood, own=own)
        reach = reach_of(CONFIDENCE if mood else 0.5)
        return Problem(self.fleet, self.tasks, costs, reach, Objective(energy=1.0))


def draw(kind: str, jobs: int, members: int, load: float, seed: int) -> Instance:
    rng = np.random.default_rng([seed, jobs, members])
    if kind == "random":
        size = np.exp(rng.normal(6, 1, jobs))
        efficiency = np.exp(rng.normal(0, 0.5, members))
        suits = np.exp(rng.normal(0, SUITS, (jobs, members)))
    else:
        models, classes = max(3, jobs // 40), max(2, members // 8)
        model, group = rng.integers(models, size=jobs), rng.integers(classes, size=members)
        size = np.exp(rng.normal(0, 1, models))[model] * 300 * (1 + rng.pareto(1.5, jobs))
        size = np.minimum(size, 20 * np.median(size))  # longer ones are run in parts
        efficiency = np.exp(rng.normal(0, 0.6, classes))[group] * np.exp(
            rng.normal(0, 0.05, members)
        )
        suits = np.exp(rng.normal(0, SUITS, (models, classes)))[model][:, group]
    flops_j = size[:, None] * efficiency
    believed_j = flops_j * suits
    true_j = believed_j * np.exp(rng.normal(0, MOOD, members) + rng.normal(0, OWN, suits.shape))
    power_w = 5 * np.exp(rng.normal(0, 0.4, members))
    supply = (
        np.median(believed_j, axis=1).sum() / load / members * np.exp(rng.normal(0, 0.4, members))
    )
    fleet = Fleet(
        tuple(
            Member(f"m{index:03}", NOBODY, Battery(each, 2 * each))
            for index, each in enumerate(supply.tolist())
        )
    )
    tasks = [Task(f"job{index:05}", "any", Job(steps=1000)) for index in range(jobs)]
    flops_j = flops_j * np.exp(np.mean(np.log(suits), axis=0))
    return Instance(fleet, tasks, believed_j, true_j, flops_j, believed_j / power_w)


# ---------------------------------------------------------------------- simple rules


def fastest(draft: Draft, task: int) -> Iterable[int]:
    options = draft.problem.options
    return sorted(draft.problem.choices[task], key=lambda each: float(options.time_s[each]))


def fullest(draft: Draft, task: int) -> Iterable[int]:
    """The member whose battery has most left first."""
    lanes, options = draft.problem.lanes, draft.problem.options

    def left(option: int) -> float:
        member = int(options.member[option])
        battery = lanes[member].member.battery
        return -((battery.usable_j if battery else 0.0) - draft.total_j(member))

    return sorted(draft.problem.choices[task], key=left)


def in_turn(draft: Draft, task: int) -> Iterable[int]:
    members, options = len(draft.problem.lanes), draft.problem.options
    placed = len(draft.chosen)
    return sorted(
        draft.problem.choices[task], key=lambda each: (int(options.member[each]) - placed) % members
    )


def by_chance(draft: Draft, task: int) -> Iterable[int]:
    choices = list(draft.problem.choices[task])
    random.Random(task).shuffle(choices)
    return choices


RULES = {
    "greedy energy": cheapest,
    "greedy fastest": fastest,
    "greedy battery": fullest,
    "round robin": in_turn,
    "random": by_chance,
}


# ---------------------------------------------------------------------- what plans are worth


def examine(case: Instance, name: str, make: Callable[[], tuple[Sheet, float | None]]) -> Row:
    start, worked = time.perf_counter(), time.process_time()
    sheet, bound = make()
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - worked
    placed, believed, true, flat = 0, 0.0, 0.0, 0
    for index, (member, pieces) in enumerate(zip(case.fleet, sheet, strict=True)):
        rows = [piece.task for piece in pieces]
        placed += len(rows)
        believed += float(case.believed_j[rows, index].sum())
        spent = float(case.true_j[rows, index].sum())
        true += spent
        flat += bool(member.battery and spent > member.battery.usable_j)
    return {
        "plan": name,
        "seconds": seconds,
        "cpu_s": cpu_s,
        "unplaced": len(case.tasks) - placed,
        "believed_j": believed,
        "true_j": true,
        "flat": flat,
        "bound_j": bound,
    }


def solved(problem: Problem) -> tuple[Sheet, float | None]:
    solution = solve(problem)
    return solution.sheet, solution.bound


def plans(case: Instance) -> list[Row]:
    ours = case.problem(case.believed_j)
    rows = [
        examine(case, "ampere", lambda: solved(case.problem(case.believed_j))),
        examine(case, "oracle", lambda: solved(case.problem(case.true_j, 0.0, 0.0))),
        examine(case, "by FLOPs", lambda: solved(case.problem(case.flops_j))),
    ]
    for name, rule in RULES.items():
        rows.append(examine(case, name, partial(ruled, ours, rule)))
    return rows


def ruled(problem: Problem, rule: Rule) -> tuple[Sheet, float | None]:
    return greedy(problem, rule), None


def run(options: argparse.Namespace) -> list[Row]:
    found = []
    sizes = SIZES[:2] if options.quick else SIZES
    for jobs, members in sizes:
        for kind in KINDS:
            for load in LOADS[: 1 if jobs > LARGE else None]:
                for seed in SEEDS if (jobs, members) == BAR else SEEDS[:1]:
                    sys.stderr.write(f"{jobs} × {members}, {kind}, {load}, {seed}\n")
                    case = draw(kind, jobs, members, load, seed)
                    base = {"jobs": jobs, "members": members, "kind": kind, "load": load}
                    found += [base | {"seed": seed} | row for row in plans(case)]
    return found


def page(rows: Sequence[Row]) -> str:
    """A line for each instance, how many keep the bar, and what simple rules cost on average."""
    cases: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        key = (row["jobs"], row["members"], row["kind"], row["load"], row.get("seed", SEEDS[0]))
        cases.setdefault(key, {})[row["plan"]] = row
    lines = []
    for (jobs, members, kind, load, seed), plans in cases.items():
        ours = plans["ampere"]
        cells = [
            f"{jobs} × {members}",
            kind,
            f"{load:g}",
            str(seed),
            f"{ours['seconds']:.1f}",
            f"{ours['cpu_s']:.1f}",
            percent(_above(ours), 2),
        ]
        cells += [_against(plans["oracle"], row) for name, row in plans.items() if name != "oracle"]
        lines.append(cells)
    names = [name for name in next(iter(cases.values())) if name != "oracle"]
    header = ["jobs × members", "kind", "load", "draw", "seconds", "of CPU", "above the bound %"]
    header += names
    flat = {
        name: fmean(plans[name]["flat"] / key[1] for key, plans in cases.items()) for name in names
    }
    told = ", ".join(f"{name} {percent(value)} %" for name, value in flat.items())
    return (
        f"{str(__doc__).split(chr(10) * 2, 1)[1].strip()}\n\n"
        "Under each plan: its true joules above those of the oracle, which knows the truth and"
        " keeps no margin, where both place as many jobs; and how many jobs it did not place.\n\n"
        f"{markdown(header, lines)}\n\n"
        f"{_kept(cases)}\n\n"
        f"Members whose battery ran flat (10 % would be as asked): {told}."
    )


def _above(row: Row) -> float:
    """By how much a plan is above its bound, as a share."""
    return float(row["believed_j"] / row["bound_j"] - 1)


def _kept(cases: Mapping[tuple[Any, ...], Mapping[str, Row]]) -> str:
    """How many draws of the size that more is asked of are near the bound, and soon there."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for (jobs, members, kind, load, _), plans in cases.items():
        if (jobs, members) == BAR:
            groups.setdefault((kind, load), []).append(plans["ampere"])
    lines = []
    for (kind, load), rows in groups.items():
        near = [_above(row) <= NEAR for row in rows]
        soon = [row["seconds"] <= SOON_S for row in rows]
        both = [a and b for a, b in zip(near, soon, strict=True)]
        counts = (f"{sum(each)} of {len(rows)}" for each in (near, soon, both))
        lines.append([kind, f"{load:g}", *counts])
    header = ["{} × {}".format(*BAR), "load", "within 3 % of the bound", "in 5 s", "both"]
    return markdown(header, lines)


def _against(oracle: Row, row: Row) -> str:
    placed = row["unplaced"] == oracle["unplaced"]
    ratio = f"{percent(row['true_j'] / oracle['true_j'] - 1)} %" if placed else "–"
    return ratio + (f", {row['unplaced']} left out" if row["unplaced"] else "")
