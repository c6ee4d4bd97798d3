"""Calibration: are intervals as wide as they should be, where the truth is known?

    python benchmarks/calibration.py            # some minutes; writes docs/paper/accuracy.md

Networks of benchmarks/bias.py, whose layers have known prices in joules and in seconds.

    drift      a device whose level moves from sitting to sitting by so much, or not at all; its
               rows are of one moment, of many sittings, or of sittings in which a reference was
               metered, too; others are asked, each metered once at another moment
    depth      what 150 J of start-up leave of layers: one to three hidden layers are known, five to
               forty are asked about
    seconds    a meter and a clock that are not equally exact
    joules     of a long job, where the meter is the coarse one: as they are learned, from the meter
               alone; and what they would be as seconds times watts, with the same rows

A right interval holds 90 % and is about as wide as the best one: that of somebody who knows the
prices, and not what the next moment will be like.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

from bias import HOUR, START, network, price
from machine import RESULTS, machine_line, write_section

from ampere.core.layers import Layer
from ampere.estimators.baselines.flops import fit_flops_affine
from ampere.estimators.encoding.contexts import contexts_of
from ampere.estimators.encoding.encoder import STEP, distinct
from ampere.estimators.fitting import fit_additive
from ampere.estimators.intervals import CONFIDENCE, interval
from ampere.records.measurement import Measurement, utc
from ampere_paper.published.intel import mlp

NOISE = 0.03
DRIFTS = (0.0, 0.03, 0.12)
SIZES = (12, 40, 120)
TOGETHER, BURSTS, FRESH = 4, 3, 20  # networks of a sitting; its rounds; networks that are asked
REFERENCE_J, REFERENCE_NOISE = 0.05, 0.01
START_UP_J = 150.0
DEPTHS, DEEPER = (1, 2, 3), (5, 10, 20, 40)
MLP_WIDTHS = tuple(range(32, 257, 32))
# Joules of a layer, and of the FLOPs of a hidden one of width 128.
SLOPES = ((0.3, 0.5), (0.05, 1.0), (1.0, 0.0), (3.0, 3.0))
EXACT = ((0.15, 0.01), (0.01, 0.15), (0.03, 0.03), (0.03, 0.003))  # of a meter, of a clock
REACH = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)

Row = dict[str, Any]
Answer = tuple[float, float, float]  # estimate, its standard deviation, and what came


def seconds(layers: Sequence[Layer]) -> float:
    """Seconds of a step, as they are in truth."""
    total = 2e-3
    for layer in layers:
        flops, activations, parameters = (value or 0.0 for value in layer.features.numbers)
        pace = 8e10 if layer.kind.operation == "conv" else 3e10
        total += 1e-3 + flops / pace + activations / 1e10 + parameters / 2e9
    return total


def drifting(rng: random.Random, size: int, drift: float, told: str) -> list[Measurement]:
    """Rows of a device, with what they tell of its moments."""
    rows: list[Measurement] = []
    for i in range(size):
        number = 0 if told == "one moment" else i // TOGETHER
        if number == len({row.sitting for row in rows}):
            level = rng.gauss(0.0, drift)
        layers = network(rng)
        joules = price(layers) * math.exp(level + rng.gauss(0.0, NOISE))
        row = Measurement(layers, joules, when=utc(START + HOUR * number), sitting=f"s{number}")
        if told == "reference":
            seen = [
                REFERENCE_J * math.exp(level + rng.gauss(0.0, REFERENCE_NOISE))
                for _ in range(BURSTS)
            ]
            bursts = {"energy_j": [joules] * BURSTS, "time_s": [1.0] * BURSTS}
            reference = {"reference_energy_j": seen, "reference_time_s": [1.0] * BURSTS}
            row = replace(row, bursts={**bursts, **reference})
        rows.append(row)
    return rows


def of_drift(rng: random.Random, size: int, drift: float, told: str) -> Iterator[Answer]:
    fit = fit_additive(drifting(rng, size, drift, told))
    for _ in range(FRESH):
        layers = network(rng)
        total = fit.predict(layers).total
        moment = rng.gauss(0.0, math.hypot(drift, NOISE))
        yield total.energy_j, total.energy_j_std, price(layers) * math.exp(moment)


def of_depth(rng: random.Random, a_layer: float, of_flops: float) -> Iterator[Answer]:
    per_flop = of_flops / (mlp(1, 128)[0].features.flops or 1.0)

    def truth(layers: Sequence[Layer]) -> float:
        own = (each.count * (a_layer + per_flop * (each.features.flops or 0.0)) for each in layers)
        return START_UP_J + math.fsum(own)

    rows = []
    for depth in DEPTHS:
        for width in MLP_WIDTHS:
            layers = mlp(depth, width)
            rows.append(Measurement(layers, truth(layers) * math.exp(rng.gauss(0.0, NOISE / 4))))
    fit, flops = fit_additive(rows), fit_flops_affine(rows)
    for depth in DEEPER:
        for width in MLP_WIDTHS[::2]:
            layers = mlp(depth, width)
            total = fit.predict(layers).total
            yield total.energy_j, total.energy_j_std, truth(layers)
            _FLOPS.append(abs(flops.predict(layers).total.energy_j / truth(layers) - 1))


_FLOPS: list[float] = []  # errors of FLOPs with an offset, of the same networks


def metered(rng: random.Random, size: int, meter: float, clock: float) -> list[Measurement]:
    """Rows of a calm device, read by a meter and a clock that are so exact."""
    rows = []
    for i in range(size):
        layers = network(rng)
        joules = price(layers) * math.exp(rng.gauss(0.0, meter))
        time_s = seconds(layers) * math.exp(rng.gauss(0.0, clock))
        rows.append(Measurement(layers, joules, time_s, when=utc(START + HOUR * i)))
    return rows


def of_seconds(rng: random.Random, size: int, meter: float, clock: float) -> Iterator[Answer]:
    fit = fit_additive(metered(rng, size, meter, clock))
    for _ in range(FRESH):
        layers = network(rng)
        total = fit.predict(layers).total
        if total.time_s is not None and total.time_s_std is not None:
            yield total.time_s, total.time_s_std, seconds(layers) * math.exp(rng.gauss(0.0, clock))


def of_joules(
    rng: random.Random, size: int, meter: float, clock: float, by_watts: bool
) -> Iterator[Answer]:
    """The joules of a long job, as they are learned; or as seconds, times the watts of layers.

    That is what joules are to seconds, with both exchanged.
    """
    rows = metered(rng, size, meter, clock)
    fit = fit_additive([exchanged(row) for row in rows] if by_watts else rows)
    for _ in range(FRESH):
        layers = network(rng)
        (cost,) = fit.costs(distinct([(*layers, STEP)]), contexts_of([layers]), noisy=False)
        if not by_watts:
            yield cost.energy_j, cost.energy_j_std, price(layers)
        elif cost.time_s is not None and cost.time_s_std is not None:
            yield cost.time_s, cost.time_s_std, price(layers)


def exchanged(row: Measurement) -> Measurement:
    """Seconds in the place of joules, and joules in that of seconds."""
    return replace(row, energy_j_per_step=row.time_s, time_s_per_step=row.energy_j)


def judged(draws: int, answers: Callable[[random.Random], Iterator[Answer]]) -> Row:
    """Coverage, bias, and half of the interval upwards, in the middle."""
    given = [each for seed in range(draws) for each in answers(random.Random(seed))]
    inside = [
        low <= came <= high for mean, std, came in given for low, high in [interval(mean, std)]
    ]
    off = [math.log(mean / came) for mean, _, came in given]
    return {
        "asked": len(given),
        "inside": fmean(inside),
        "error": fmean(map(abs, off)),
        "bias": fmean(off),
        "half": fmean(REACH * std / mean for mean, std, _ in given),
    }


def run(draws: int) -> list[Row]:
    rows: list[Row] = []

    def add(part: str, what: str, best: float | None, found: Row) -> None:
        rows.append({"part": part, "what": what, "best": best, **found})
        sys.stderr.write(f"{part}: {what}: {found['inside']:.0%}\n")

    for told in ("one moment", "sittings", "reference"):
        for drift in DRIFTS:
            for size in SIZES:
                found = judged(
                    draws,
                    lambda rng, n=size, d=drift, t=told: of_drift(rng, n, d, t),  # type: ignore[misc]
                )
                best = REACH * math.hypot(drift, NOISE)
                add("drift", f"{told}, drift {drift:.0%}, {size} rows", best, found)
    for a_layer, of_flops in SLOPES:
        _FLOPS.clear()
        found = judged(2 * draws, lambda rng, a=a_layer, f=of_flops: of_depth(rng, a, f))  # type: ignore[misc]
        found["flops"] = fmean(_FLOPS)
        add("depth", f"{a_layer:g} J a layer, {of_flops:g} J of FLOPs", None, found)
    for meter, clock in EXACT:
        for size in (24, 80):
            found = judged(
                draws,
                lambda rng, n=size, m=meter, c=clock: of_seconds(rng, n, m, c),  # type: ignore[misc]
            )
            what = f"meter {meter:.1%}, clock {clock:.1%}, {size} rows"
            add("seconds", what, REACH * clock, found)
    meter, clock = EXACT[0]
    for size in (24, 80):
        for by_watts, how in ((False, "as they are learned"), (True, "as seconds times watts")):
            found = judged(
                draws,
                lambda rng, n=size, by=by_watts: of_joules(rng, n, meter, clock, by),  # type: ignore[misc]
            )
            what = f"{how}, meter {meter:.1%}, clock {clock:.1%}, {size} rows"
            add("joules", what, None, found)
    return rows


def table(rows: Sequence[Row]) -> str:
    lines = ["| part | | asked | inside 90 % | error % | bias % | half interval % | best one % |"]
    lines.append("|---" * 8 + "|")
    for row in rows:
        best = "" if row["best"] is None else f"{100 * row['best']:.1f}"
        note = f" (FLOPs with an offset: {100 * row['flops']:.1f} % off)" if "flops" in row else ""
        cells = [row["part"], row["what"] + note, str(row["asked"]), f"{100 * row['inside']:.0f}"]
        cells += [f"{100 * row['error']:.1f}", f"{100 * row['bias']:+.1f}"]
        cells += [f"{100 * row['half']:.1f}", best]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=6, help="of the rows of each line")
    parser.add_argument("--out", type=Path, default=RESULTS / "calibration.json")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/paper/accuracy.md alone")
    options = parser.parse_args(arguments)
    rows, machine = run(options.draws), machine_line({})
    options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    text = f"Fitted on: {machine} Noise of {NOISE:.0%}.\n\n{table(rows)}"
    print(text)
    if not options.no_docs:
        write_section("accuracy.md", "calibration", text)


if __name__ == "__main__":
    main()
