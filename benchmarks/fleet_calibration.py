"""Do batteries hold as surely as a plan says?

Members are simulated devices (five of them), each with a profile made from few networks of a
family (at most 6 or 12, drawn by another seed each); jobs are other members of the family. Truth is
what the device itself takes when it runs the whole queue one job after the other: another seed of
its noise, a room between 15 and 35 °C, and warm from up to ten minutes of work before. Nothing of
that is known to the planner. Profiles are reused over fleets, with other jobs, batteries and
moments each time. More jobs are given than batteries have room for, so that batteries are filled.

Beside the plan: one that takes the errors of jobs for independent, and two by FLOPs (joules of a
FLOP fitted to the same profile's rows): as they are, and with the spread of their own residuals,
shared by all jobs, as their error.

`as believed` is the check of a truth that is known: how often batteries would have held if errors
had been those that the plan believes in, drawn so many times for each battery as it was filled. It
should be what was said. What is above it in `held` is of profiles that expect more error than their
device makes; what it has above the asked probability is of jobs that are whole. `known truth` is
the same without profiles and devices: costs are made up, and truth errs as the planner is told.

`near the edge` are batteries that are planned to 80 % or more and of which less than 92 % is said;
`if all were` is what would have held had each been filled until just what was asked is said.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import fleet_planning
import numpy as np
from fleet_tables import markdown, percent

import ampere
from ampere.acquisition.families import Network
from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.devices.physics import simulated_devices
from ampere.devices.simulated import SimulatedDevice
from ampere.fleet.costs import Costs, estimate_costs
from ampere.fleet.planning.assurance import reach_of, upper
from ampere.fleet.planning.lane import Lane, Piece
from ampere.fleet.planning.objective import Objective
from ampere.fleet.planning.problem import Problem
from ampere.fleet.planning.solver import solve

FLEETS = 200
FAMILIES = ("lenet5", "har")
LIMITS = (6, 12)  # networks of a profile
ASKED = 48  # networks of a family that jobs are drawn from
JOBS, MEMBERS = 30, 4
CONFIDENCE = 0.9
FILLED = 0.8
EDGE = 0.92  # what is said of batteries that are filled nearly as far as may be
DRAWN = 400  # truths as believed, of each battery
LOAD = 1.8  # of fleets that are made up
PATIENCE_S = 0.2  # it is about batteries, not the last joule
Row = dict[str, Any]


@dataclass(frozen=True)
class Profiled:
    """A simulated device, and what it taught."""

    device: str
    profile: ampere.Profile


def profiles(family: str, folder: Path, quick: bool) -> list[Profiled]:
    made = []
    for name in simulated_devices()[: 2 if quick else None]:
        for seed, most in enumerate(LIMITS):
            sys.stderr.write(f"\r{family} {name} {most}      ")
            with SimulatedDevice(name, seed=seed) as device:
                profile = ampere.profile(
                    f"zoo:{family}",
                    path=folder / f"{family}_{name}_{seed}.ampere",
                    device=device,
                    strategy=ampere.Strategy(max_measurements=most, seed=seed),
                )
            made.append(Profiled(name, profile))
    return made


@dataclass(frozen=True)
class Known:
    """All profiles of a family, networks to ask about, and what each says of each step."""

    profiled: Sequence[Profiled]
    networks: Sequence[Network]
    step: Costs


def knowledge(family: str, folder: Path, quick: bool) -> Known:
    profiled = profiles(family, folder, quick)
    networks = ampere.sample(f"zoo:{family}", ASKED, seed=1000)
    members = [ampere.Member(str(at), each.profile) for at, each in enumerate(profiled)]
    tasks = [
        ampere.Task(f"{at:03}", network.layers, ampere.Job(steps=1))
        for at, network in enumerate(networks)
    ]
    return Known(profiled, networks, estimate_costs(ampere.Fleet(tuple(members)), tasks))


@dataclass(frozen=True)
class Case:
    """A fleet with jobs, and what is believed of them."""

    fleet: ampere.Fleet
    tasks: list[ampere.Task]
    networks: list[Network]
    costs: Costs

    def problem(self, beliefs: Costs) -> Problem:
        """As somebody sees it who believes in these costs."""
        objective, reach = Objective(energy=1.0), reach_of(CONFIDENCE)
        return Problem(self.fleet, self.tasks, beliefs, reach, objective)


def draw(known: Known, rng: random.Random) -> Case:
    """Jobs of some minutes, and batteries that have room for a part of them."""
    rows = rng.sample(range(len(known.networks)), JOBS)
    columns = [rng.randrange(len(known.profiled)) for _ in range(MEMBERS)]
    step = known.step.taken(rows, columns)
    seconds = np.array([rng.lognormvariate(np.log(120), 0.7) for _ in rows])
    steps = np.maximum(20, seconds / step.time_s.mean(axis=1)).astype(int)
    costs = replace(
        step,
        energy_j=step.energy_j * steps[:, None],
        time_s=step.time_s * steps[:, None],
        steps=np.repeat(steps[:, None], MEMBERS, axis=1),
    )
    networks = [known.networks[row] for row in rows]
    tasks = [
        ampere.Task(f"job{at:02}", network.layers, ampere.Job(steps=int(count)))
        for at, (network, count) in enumerate(zip(networks, steps, strict=True))
    ]
    members = []
    for at, (column, share) in enumerate(
        zip(columns, (costs.energy_j.sum(axis=0) / MEMBERS).tolist(), strict=True)
    ):
        usable, each = share * rng.uniform(0.4, 0.9), known.profiled[column]
        battery = ampere.Battery(usable, 4 * usable)
        members.append(ampere.Member(f"{at} {each.device}", each.profile, battery))
    return Case(ampere.Fleet(tuple(members)), tasks, networks, costs)


def by_flops(case: Case, sure: bool) -> Costs:
    """What FLOPs say, with the spread of their residuals or without any error."""
    fleet, tasks, costs = case.fleet, case.tasks, case.costs
    energy, spread = np.empty_like(costs.energy_j), np.zeros(len(fleet))
    for index, member in enumerate(fleet):
        rows = [row for row in member.profile.measurements if row.failed is None]
        flops = np.array([_flops(row.layers) for row in rows])
        joules = np.array([row.energy_j for row in rows])
        rate = joules.sum() / flops.sum()
        spread[index] = np.std(np.log(joules / (rate * flops)))
        energy[:, index] = [rate * _flops(_layers(task)) * (task.job.steps or 1) for task in tasks]
    mood = np.broadcast_to(spread if sure else 0.0, energy.shape)
    return Costs.known(energy, costs.time_s, mood=mood)


def _layers(task: ampere.Task) -> Sequence[Layer]:
    return [each for each in task.model if isinstance(each, Layer)]


def _flops(layers: Sequence[Layer]) -> float:
    return sum((layer.features.flops or 0.0) * layer.count for layer in layers)


def alone(costs: Costs) -> Costs:
    """The same errors, as if jobs did not share them."""
    variance = (costs.shared**2).sum(axis=2).T + costs.own**2
    return replace(costs, shared=np.zeros_like(costs.shared), own=np.sqrt(variance))


def spent_j(device: str, queue: Sequence[tuple[Network, int]], rng: random.Random) -> float:
    """What the device takes for its queue, in a mood of its own."""
    with SimulatedDevice(device, seed=rng.randrange(10**6)) as real:
        real._hardware = replace(real._hardware, ambient_c=rng.uniform(15, 35))
        real._temperature_c = real._settled_c(real._hardware.idle_w)
        first = real.load(queue[0][0].workload).handle
        step_s = real._loaded[first][0].time_s
        real._run(real._loaded[first], rng.uniform(0, 600) / step_s)
        before = real._energy_j
        for network, steps in queue:
            handle = real.load(network.workload).handle
            real._run(real._loaded[handle], steps)
            real.unload(handle)
        return real._energy_j - before


def as_believed(lane: Lane, queue: Sequence[Piece], rng: np.random.Generator) -> float:
    """How often the battery holds where errors are what the plan takes them for."""
    rows = [piece.task for piece in queue]
    shared, own = lane.shared[rows], lane.own[rows]
    moods = rng.standard_normal((DRAWN, shared.shape[1])) @ shared.T
    logs = moods + own * rng.standard_normal((DRAWN, len(queue)))
    spent = (lane.energies_j(queue) * np.exp(logs)).sum(axis=1)
    assert lane.member.battery is not None
    return float((spent <= lane.member.battery.usable_j).mean())


def edge_of(lane: Lane, queue: Sequence[Piece], true_j: float) -> Row:
    """What is expected of the queue's error, and whether a battery filled to the edge held."""
    total, std = float(lane.energies_j(queue).sum()), lane.deviation_j(queue)
    most_j = lane.middles(queue)[-1] * upper(total, std, reach_of(CONFIDENCE))
    return {"expected": std / total, "edge": bool(true_j <= most_j)}


def examine(
    name: str,
    problem: Problem,
    believed: Sequence[Lane],
    networks: Sequence[Network],
    seed: int,
) -> list[Row]:
    """A row for each member: how full it was planned, what was said, and what came."""
    solution = solve(problem, PATIENCE_S)
    rows = []
    for lane, ours, pieces in zip(problem.lanes, believed, solution.sheet, strict=True):
        if not pieces or lane.member.battery is None:
            continue
        queue = lane.ordered(pieces)
        rng = random.Random(f"{seed} {lane.member.name}")
        device = lane.member.name.split()[1]
        jobs = [(networks[each.task], problem.tasks[each.task].job.steps or 1) for each in queue]
        true = spent_j(device, jobs, rng)
        usable = lane.member.battery.usable_j
        rows.append(
            {
                "plan": name,
                "fleet": seed,
                "device": device,
                "jobs": len(queue),
                "filled": float(lane.energies_j(queue).sum()) / usable,
                "said": lane.p_battery(queue, lane.laid(queue))[-1],
                "believed": as_believed(lane, queue, np.random.default_rng(seed)),
                "spent": true / usable,
                "error": true / float(ours.energies_j(queue).sum()) - 1,
                **edge_of(lane, queue, true),
            }
        )
    return rows


def known_truth(seed: int) -> list[Row]:
    """Batteries of a fleet whose costs are made up, and whose errors are as is believed."""
    case = fleet_planning.draw("random", JOBS, MEMBERS, LOAD, seed)
    problem = case.problem(case.believed_j)
    rows = []
    for lane, pieces in zip(problem.lanes, solve(problem, PATIENCE_S).sheet, strict=True):
        if not pieces or lane.member.battery is None:
            continue
        queue = lane.ordered(pieces)
        believed = float(lane.energies_j(queue).sum())
        true = float(case.true_j[[piece.task for piece in queue], lane.index].sum())
        usable = lane.member.battery.usable_j
        rows.append(
            {
                "plan": "known truth",
                "fleet": seed,
                "device": "made up",
                "jobs": len(queue),
                "filled": believed / usable,
                "said": lane.p_battery(queue, lane.laid(queue))[-1],
                "believed": as_believed(lane, queue, np.random.default_rng(seed)),
                "spent": true / usable,
                "error": true / believed - 1,
                **edge_of(lane, queue, true),
            }
        )
    return rows


def run(options: argparse.Namespace) -> list[Row]:
    fleets, families = (6, FAMILIES[:1]) if options.quick else (FLEETS, FAMILIES)
    found = [row for seed in range(fleets) for row in known_truth(seed)]
    with tempfile.TemporaryDirectory() as folder:
        known = [knowledge(family, Path(folder), options.quick) for family in families]
    for seed in range(fleets):
        sys.stderr.write(f"\rfleet {seed}/{fleets}   ")
        case = draw(known[seed % len(known)], random.Random(seed))
        ours = case.problem(case.costs)
        beliefs = {
            "ampere": ours,
            "errors independent": case.problem(alone(case.costs)),
            "FLOPs": case.problem(by_flops(case, sure=False)),
            "FLOPs with their spread": case.problem(by_flops(case, sure=True)),
        }
        for name, problem in beliefs.items():
            found += examine(name, problem, ours.lanes, case.networks, seed)
    return found


def _mean(rows: Sequence[Row], name: str, digits: int = 1) -> str:
    """Of what rows tell; those that were kept by an earlier version may not."""
    told = [float(row[name]) for row in rows if name in row]
    return percent(fmean(told), digits) if told else "–"


def _edges(rows: Sequence[Row]) -> str:
    """How batteries do that are filled as far as may be."""
    lines = []
    for name in dict.fromkeys(row["plan"] for row in rows):
        full = [row for row in rows if row["plan"] == name and row["filled"] >= FILLED]
        near = [row for row in full if row["said"] < EDGE]
        held = percent(fmean(row["spent"] <= 1 for row in near)) if near else "–"
        lines.append([name, str(len(near)), _mean(near, "said"), held, _mean(full, "edge")])
    header = ["plan", "near the edge", "said %", "held %", "if all were: held %"]
    return markdown(header, lines)


def page(rows: Sequence[Row]) -> str:
    lines = []
    for name in dict.fromkeys(row["plan"] for row in rows):
        ours = [row for row in rows if row["plan"] == name]
        full = [row for row in ours if row["filled"] >= FILLED]
        held = [row["spent"] <= 1 for row in full]
        lines.append(
            [
                name,
                str(len(ours)),
                str(len(full)),
                percent(fmean(held)) if held else "–",
                _mean(full, "said"),
                _mean(full, "believed"),
                percent(fmean(row["spent"] <= 1 for row in ours)),
                percent(fmean(row["filled"] for row in ours)),
                f"{fmean(row['jobs'] for row in ours):.1f}",
            ]
        )
    header = ["plan", "batteries", "planned to 80 % or more", "of these held %", "said %"]
    header.append("as believed %")
    header += ["held of all %", "filled %", "jobs a battery"]
    devices = []
    ours = [row for row in rows if row["plan"] == "ampere" and row["filled"] >= FILLED]
    for device in sorted({row["device"] for row in ours}):
        own = [row for row in ours if row["device"] == device]
        errors: Array = np.array([row["error"] for row in own])
        devices.append(
            [
                device,
                str(len(own)),
                percent(fmean(row["spent"] <= 1 for row in own)),
                percent(fmean(row["said"] for row in own)),
                percent(float(errors.mean())),
                percent(float(errors.std())),
                _mean(own, "expected"),
                _mean(own, "edge"),
            ]
        )
    own_header = ["device", "batteries", "held %", "said %", "error of the queue: mean %", "std %"]
    own_header += ["expected %", "if all were at the edge: held %"]
    told = str(__doc__).split("\n\n", 1)[1].strip()
    fleets = len({row["fleet"] for row in rows})
    return (
        f"{told}\n\n{fleets} fleets of {MEMBERS} members and {JOBS} jobs; simulated joules."
        f" Asked: {percent(CONFIDENCE, 0)} %.\n\n{markdown(header, lines)}\n\n"
        f"{_edges(rows)}\n\n"
        f"By device, of batteries planned to 80 % or more:\n\n{markdown(own_header, devices)}"
    )
