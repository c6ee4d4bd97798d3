"""How fast candidates are estimated, and how fits grow with the number of measurements.

    python benchmarks/search.py               # about 3 minutes; one core

Candidates: a 5-layer family (zoo:cnn5) from the tables of a profile that is kept in
benchmarks/results, widths drawn at random, medians of seven. Fits: random members of that family,
whose joules are what the profile says of them with 3 % of noise on top; energy and time together.
And networks of layers of fifty kinds, with prices of their own. A fit is told in CPU seconds of its
one thread, since others may use the machine as well.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import json
import math
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import numpy.typing as npt
from machine import RESULTS, machine_line, write_section
from speed import median_s

import ampere
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.estimators.fitting import fit_additive
from ampere.estimators.selection import MOST_ROWS
from ampere.profiles.tables.family_tables import FamilyTables
from ampere.records.measurement import Measurement

PROFILE = RESULTS / "additive_cnn5_seed0.ampere.gz"
SIZES = (20, 50, 100, 200, 500, 1000, 2000, 10_000)
KINDS_SIZES = (200, 2000)
GROWTH = (200, 1000)  # rows between which it is told; more than the latter are drawn from


def draw(tables: FamilyTables, n: int, seed: int = 0) -> npt.NDArray[np.int64]:
    """Random candidates."""
    rng = np.random.default_rng(seed)
    columns = [
        step * rng.integers(1, largest // step + 1, n)
        for step, largest in zip(tables.steps, tables.largest, strict=True)
    ]
    return np.column_stack(columns)


def rows_of(tables: FamilyTables, n: int) -> list[Measurement]:
    """Members as if they had been measured."""
    rng = np.random.default_rng(1)
    widths = draw(tables, n, 1)
    joules, seconds = tables.estimate_many(widths), tables.seconds(widths)
    noise = np.exp(0.03 * rng.standard_normal(n))
    return [
        Measurement(tables.layers_at(row), float(j * e), float(s * e))
        for row, j, s, e in zip(widths, joules, seconds, noise, strict=True)
    ]


def of_many_kinds(n: int) -> list[Measurement]:
    """Networks of convolutions of five kernels on ten maps, whose prices are known."""
    rng = random.Random(2)
    rows = []
    for _ in range(n):
        layers = tuple(any_conv(rng) for _ in range(rng.randint(2, 6)))
        joules = 4e-3 + math.fsum(
            1e-3
            + 1e-10 * (each.features.flops or 0)
            + 3e-10 * (each.features.activation_bytes or 0)
            for each in layers
        )
        joules *= math.exp(rng.gauss(0.0, 0.03))
        rows.append(Measurement(layers, joules, joules / 4 * math.exp(rng.gauss(0.0, 0.03))))
    return rows


def any_conv(rng: random.Random) -> Layer:
    kernel, side = rng.choice((1, 3, 5, 7, 9)), rng.choice(range(4, 44, 4))
    a, b = (8 * rng.randint(1, 16) for _ in range(2))
    pixels, weights = 8 * side**2, kernel**2 * a * b
    features = Features(6.0 * weights * pixels, 8.0 * (a + b) * pixels, 4.0 * weights)
    settings = {"kernel": kernel, "side": side, "batch": 8}
    kind = LayerKind(f"conv{kernel} @{side}", Role.HIDDEN, "conv", settings)
    return Layer("conv", kind, Widths({"in": a, "out": b}), features)


def some(rows: list[Measurement], sizes: Sequence[int]) -> Iterator[list[Measurement]]:
    return (rows[:n] for n in sizes)


def timed(rows: list[Measurement]) -> tuple[int, int, float, float, float]:
    """Rows, different layers, CPU seconds of a fit and of one row more, and memory so far."""
    n = len(rows)
    spent = cpu_s(partial(fit_additive, rows), 3 if n <= 200 else 1)
    fit = fit_additive(rows)
    extra = replace(rows[0], energy_j_per_step=rows[0].energy_j * 1.01)
    telling = cpu_s(partial(fit.tell, extra), 3)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stderr.write(f"{n} measurements: {spent:.2f} s\n")
    return n, len(fit.layers), spent, telling, memory


def cpu_s(work: Callable[[], object], times: int) -> float:
    """The median of what it takes of the processor."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return median(taken)


def main() -> None:
    """Run all, print the tables and keep them."""
    start = time.perf_counter()
    profile = ampere.Profile.load(PROFILE)
    tables = profile.tabulate("zoo:cnn5")
    million = draw(tables, 1_000_000)
    tables.estimate_many(million[:1])
    building = time.perf_counter() - start
    few = million[:100_000]
    candidates = {
        "joules": len(million) / median_s(lambda: tables.estimate_many(million)),
        "seconds": len(million) / median_s(lambda: tables.seconds(million)),
        "joules and standard deviation": len(few)
        / median_s(lambda: (tables.estimate_many(few), tables.std(few))),
        "gradient of joules": len(few) / median_s(lambda: tables.energy_gradient(few)),
        "one by one (`estimate`)": 20
        / median_s(lambda: [profile.estimate(tables.layers_at(row)) for row in million[:20]]),
    }
    fits = [timed(rows) for rows in some(rows_of(tables, max(SIZES)), SIZES)]
    kinds = [timed(rows) for rows in some(of_many_kinds(max(KINDS_SIZES)), KINDS_SIZES)]
    small, large = (next(fit for fit in fits if fit[0] == n) for n in GROWTH)
    growth = math.log(large[2] / small[2]) / math.log(large[0] / small[0])
    text = [f"Machine: {machine_line({'threads': '1'})}", ""]
    text += [f"Tables of {', '.join(tables.names)}: fitted and built in {building:.1f} s.", ""]
    text += ["| what | candidates a second |", "|---|---|"]
    text += [f"| {name} | {_short(speed)} |" for name, speed in candidates.items()]
    text += ["", "| measurements | layers | fit (CPU s) | one more (CPU s) | memory so far (MiB) |"]
    text += ["|---|---|---|---|---|"]
    text += [f"| {n} | {k} | {s:.2f} | {t:.3f} | {m:.0f} |" for n, k, s, t, m in fits]
    text += [f"| {n} of 50 kinds | {k} | {s:.2f} | {t:.3f} | {m:.0f} |" for n, k, s, t, m in kinds]
    text += ["", f"From {small[0]} to {large[0]} rows the time of a fit grows as n^{growth:.1f};"]
    text[-1] += f" of more than {MOST_ROWS} so many are drawn, and the fit says so."
    print("\n".join(text))
    write_section("speed.md", "search", "\n".join(text))
    kept = {"candidates_per_s": candidates, "fits": fits, "kinds": kinds, "building_s": building}
    (RESULTS / "search.json").write_text(json.dumps(kept, indent=1) + "\n")


def _short(speed: float) -> str:
    return f"{speed / 1e6:.2f} million" if speed >= 1e5 else f"{speed:.0f}"


if __name__ == "__main__":
    main()
