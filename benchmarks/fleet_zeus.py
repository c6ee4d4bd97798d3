"""Plans of jobs whose joules were measured on four GPUs (Zeus).

A job is a workload with a batch size, at a limit of 250 W. Of each GPU about half of all workloads
and batch sizes are known, drawn at random; a profile is made of these (one by its own rows alone,
one that borrows from the known rows of the three others). Jobs are drawn from the whole matrix,
where a GPU ran them at all, and each GPU has a budget of joules in place of a battery. Truth is
what was measured. `size × GPU` is what FLOPs could know at best: joules of a sample for each
workload, times a rate for each GPU, fitted to the known rows, whatever the batch. The oracle plans
with the truth. Simple rules have the estimates of the profiles that borrow.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from fleet_planning import RULES
from fleet_tables import markdown, percent

import ampere
from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.errors import DataError
from ampere.estimators.fitting import fit_additive
from ampere.estimators.lending.lenders import Lender, Lenders
from ampere.fleet.costs import Costs, estimate_costs
from ampere.fleet.planning.assurance import reach_of
from ampere.fleet.planning.greedy import greedy
from ampere.fleet.planning.objective import Objective
from ampere.fleet.planning.problem import Problem, Sheet
from ampere.fleet.planning.solver import solve
from ampere.records.measurement import Measurement
from ampere_paper.published import zeus

LIMIT_W = 250
DRAWS, JOBS = 20, 60
CONFIDENCE = 0.9
PATIENCE_S = 1.0
Cell = tuple[str, int]  # a workload and a batch
Row = dict[str, Any]


@dataclass(frozen=True)
class Gpu:
    """What was measured of one, by cell."""

    name: str
    rows: Mapping[Cell, Sequence[Measurement]]

    def at_limit(self, cell: Cell) -> Measurement | None:
        """The row that a job stands for."""
        for row in self.rows.get(cell, ()):
            if row.layers[0].kind.attributes["power_limit"] == LIMIT_W:
                return row
        return None


def read(folder: Path | None) -> list[Gpu]:
    if folder is None:
        raise DataError("the part zeus needs --data DIR, with zeus_train_epochs.csv in it")
    gpus = []
    for data in zeus.read(folder):
        cells = defaultdict(list)
        for row in data.rows:
            cells[row.layers[0].kind.name, row.layers[0].widths["batch"]].append(row)
        gpus.append(Gpu(data.name.rpartition(" ")[2], dict(cells)))
    return gpus


def known_rows(gpu: Gpu, rng: random.Random) -> list[Measurement]:
    """All rows of half of the cells of each workload, one at least."""
    by_workload = defaultdict(list)
    for cell in gpu.rows:
        by_workload[cell[0]].append(cell)
    rows = []
    for cells in by_workload.values():
        for cell in rng.sample(cells, max(1, len(cells) // 2)):
            rows += [replace(row, device=gpu.name) for row in gpu.rows[cell]]
    return rows


def draw_jobs(gpus: Sequence[Gpu], rng: random.Random) -> list[tuple[Cell, int]]:
    """Cells that two GPUs ran at least, each for so many steps."""
    counts: dict[Cell, list[float]] = defaultdict(list)
    for gpu in gpus:
        for cell in gpu.rows:
            row = gpu.at_limit(cell)
            if row is not None:
                counts[cell].append(row.energy_j)
    cells = [cell for cell, joules in sorted(counts.items()) if len(joules) >= 2]
    chosen = [rng.choice(cells) for _ in range(JOBS)]
    return [
        (cell, max(1, round(rng.lognormvariate(np.log(1e6), 0.7) / fmean(counts[cell]))))
        for cell in chosen
    ]


def true_costs(gpus: Sequence[Gpu], jobs: Sequence[tuple[Cell, int]]) -> Array:
    table = np.full((len(jobs), len(gpus)), np.inf)
    for index, gpu in enumerate(gpus):
        for place, (cell, steps) in enumerate(jobs):
            row = gpu.at_limit(cell)
            if row is not None:
                table[place, index] = steps * row.energy_j
    return table


def layers_of(gpus: Sequence[Gpu], cell: Cell) -> tuple[Layer, ...]:
    return next(row.layers for gpu in gpus if (row := gpu.at_limit(cell)) is not None)


def by_size(
    gpus: Sequence[Gpu], jobs: Sequence[tuple[Cell, int]], known: Sequence[Sequence[Measurement]]
) -> Array:
    """A size for each workload times a rate for each GPU, from the known rows at the limit."""
    samples = []
    for index, rows in enumerate(known):
        for row in rows:
            layer = row.layers[0]
            if layer.kind.attributes["power_limit"] == LIMIT_W:
                # joules of a sample: those of a step over its batch
                samples.append((layer.kind.name, index, row.energy_j / layer.widths["batch"]))
    names = sorted({name for name, _, _ in samples})
    design = np.zeros((len(samples), len(names) + len(gpus)))
    for place, (name, index, _) in enumerate(samples):
        design[place, names.index(name)] = design[place, len(names) + index] = 1
    found = np.linalg.lstsq(design, np.log([joules for *_, joules in samples]), rcond=None)[0]
    table = np.full((len(jobs), len(gpus)), np.inf)
    for place, ((name, batch), steps) in enumerate(jobs):
        if name in names:
            rates = found[names.index(name)] + found[len(names) :]
            table[place] = steps * batch * np.exp(rates)
    return table


def examine(name: str, sheet: Sheet, true_j: Array, fleet: ampere.Fleet, said: Array) -> Row:
    spent = [
        float(sum(true_j[piece.task, index] for piece in pieces))
        for index, pieces in enumerate(sheet)
    ]
    limits = [member.battery.usable_j for member in fleet if member.battery]
    used = zip(spent, limits, strict=True)
    errors = [
        abs(said[piece.task, index] / true_j[piece.task, index] - 1)
        for index, pieces in enumerate(sheet)
        for piece in pieces
    ]
    return {
        "plan": name,
        "true_j": sum(spent),
        "unplaced": len(true_j) - sum(map(len, sheet)),
        "over": sum(each > limit for each, limit in used),
        "members": len(limits),
        "error": fmean(errors) if errors else None,
    }


def plans(gpus: Sequence[Gpu], seed: int) -> Iterable[Row]:
    rng = random.Random(seed)
    jobs = draw_jobs(gpus, rng)
    true_j = true_costs(gpus, jobs)
    known = [known_rows(gpu, rng) for gpu in gpus]
    finite = np.where(np.isfinite(true_j), true_j, np.nan)
    budgets = [1.25 * float(np.nanmedian(finite, axis=1).sum()) / len(gpus)] * len(gpus)
    tasks = [
        ampere.Task(f"job{index:02}", layers_of(gpus, cell), ampere.Job(steps=steps))
        for index, (cell, steps) in enumerate(jobs)
    ]
    fits = [Lender(gpu.name, fit_additive(rows)) for gpu, rows in zip(gpus, known, strict=True)]

    def member(index: int, lent: bool) -> ampere.Member:
        profile = ampere.fit(known[index])
        others = tuple(each for each in fits if each.name != gpus[index].name)
        profile = profile.borrowing(Lenders(others)) if lent else profile
        battery = ampere.Battery(budgets[index], 2 * budgets[index])
        return ampere.Member(gpus[index].name, profile, battery)

    def costs(fleet: ampere.Fleet) -> Costs:
        """As estimated, where the GPU ran the job at all."""
        found = estimate_costs(fleet, tasks)
        there = np.isfinite(true_j)
        return replace(found, energy_j=np.where(there, found.energy_j, np.inf))

    def problem(fleet: ampere.Fleet, beliefs: Costs) -> Problem:
        return Problem(fleet, tasks, beliefs, reach_of(CONFIDENCE), Objective(energy=1.0))

    alone, lent = (
        ampere.Fleet(tuple(member(index, lends) for index in range(len(gpus))))
        for lends in (False, True)
    )
    sized = np.where(np.isfinite(true_j), by_size(gpus, jobs, known), np.inf)
    beliefs = {
        "oracle": Costs.known(true_j),
        "ampere, borrowing": costs(lent),
        "ampere, own rows": costs(alone),
        "size × GPU": Costs.known(sized),
    }
    for name, each in beliefs.items():
        sheet = solve(problem(alone, each), PATIENCE_S).sheet
        yield examine(name, sheet, true_j, alone, each.energy_j)
    ours = problem(alone, beliefs["ampere, borrowing"])
    for name, rule in RULES.items():
        if name != "greedy fastest":  # seconds were not told to the profiles
            yield examine(name, greedy(ours, rule), true_j, alone, ours.costs.energy_j)


def run(options: argparse.Namespace) -> list[Row]:
    gpus, found = read(options.data), []
    for seed in range(2 if options.quick else DRAWS):
        sys.stderr.write(f"\rzeus {seed}   ")
        found += [{"draw": seed} | row for row in plans(gpus, seed)]
    return found


def page(rows: Sequence[Row]) -> str:
    oracle = {row["draw"]: row for row in rows if row["plan"] == "oracle"}
    lines = []
    for name in dict.fromkeys(row["plan"] for row in rows):
        ours = [row for row in rows if row["plan"] == name]
        whole = [row for row in ours if not row["unplaced"]]
        above = [row["true_j"] / oracle[row["draw"]]["true_j"] - 1 for row in whole]
        errors = [row["error"] for row in ours if row["error"] is not None]
        lines.append(
            [
                name,
                f"{percent(fmean(above))} ({len(whole)})" if above else "–",
                f"{fmean(row['unplaced'] for row in ours):.1f}",
                percent(sum(row["over"] for row in ours) / sum(row["members"] for row in ours)),
                percent(fmean(errors)),
            ]
        )
    header = ["plan", "measured joules above the oracle % (draws in which all were placed)"]
    header += ["jobs left out", "budgets overdrawn %", "error of estimates of placed jobs %"]
    told = str(__doc__).split("\n\n", 1)[1].strip()
    return (
        f"{told}\n\n{len(oracle)} draws of {JOBS} jobs. {zeus.SOURCE}\n\n{markdown(header, lines)}"
    )
