"""Bias: what estimates make of rows whose truth is known, the more rows, the more moments.

    python benchmarks/bias.py            # some minutes; writes docs/paper/accuracy.md

Networks of convolutions whose layers have prices, linear in what they do, are measured with noise,
all at one moment or each in an hour of its own. Fresh networks are estimated, and compared with
their prices. Nothing drifts, so whatever all estimates have in common is the method's own. All
sizes have as many rows in total, in several draws, so that noise weighs alike.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from machine import RESULTS, machine_line, write_section

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.estimators.fitting import fit_additive
from ampere.records.measurement import Measurement, utc

SIZES = (40, 80, 160, 320)
TOTAL = 1920  # rows of all draws of a size
NOISE = 0.03
FRESH = 40  # networks that are estimated
MOST = 0.003  # bias that is allowed
BATCH = 8
STEP_J = 4e-3
# Joules of a layer, of a FLOP, of a byte of activations and of parameters.
PRICES = {"conv": (2e-3, 1e-10, 3e-10, 5e-9), "linear": (1e-3, 2e-10, 4e-10, 8e-9)}
WIDTHS = tuple(range(8, 65, 8))
START, HOUR = 1.75e9, 3600.0

Row = dict[str, Any]


def conv(role: Role, n_in: int, n_out: int, side: int) -> Layer:
    pixels = BATCH * side**2
    weights = 9 * n_in * n_out
    features = Features(6.0 * weights * pixels, 8.0 * (n_in + n_out) * pixels, 4.0 * weights)
    kind = LayerKind(f"{role.value} conv @{side}", role, "conv", {"side": side, "batch": BATCH})
    return Layer("conv", kind, Widths({"in": n_in, "out": n_out}), features)


def linear(width: int) -> Layer:
    features = Features(60.0 * BATCH * width, 8.0 * BATCH * (width + 10), 40.0 * width)
    kind = LayerKind("last linear", Role.LAST, "linear", {"batch": BATCH})
    return Layer("linear", kind, Widths({"in": width}), features)


def network(rng: random.Random) -> tuple[Layer, ...]:
    """Two to five convolutions on smaller and smaller maps, and a classifier."""
    widths = [rng.choice(WIDTHS) for _ in range(rng.randint(2, 5))]
    pairs = itertools.pairwise(widths)
    hidden = (conv(Role.HIDDEN, a, b, 16 if i < 2 else 8) for i, (a, b) in enumerate(pairs))
    return conv(Role.FIRST, 3, widths[0], 32), *hidden, linear(widths[-1])


def price(layers: Sequence[Layer]) -> float:
    """Joules of a step, as they are in truth."""
    total = STEP_J
    for layer in layers:
        done = (1.0, *(value or 0.0 for value in layer.features.numbers))
        total += math.fsum(a * b for a, b in zip(PRICES[layer.kind.operation], done, strict=True))
    return total


def draw(size: int, seed: int, moments: bool) -> list[Measurement]:
    """Rows of random networks, at one moment or at many."""
    rng = random.Random(seed)
    rows = []
    for i in range(size):
        layers = network(rng)
        energy_j = price(layers) * math.exp(rng.gauss(0.0, NOISE))
        rows.append(Measurement(layers, energy_j, when=utc(START + (HOUR * i if moments else 0))))
    return rows


def examine(size: int, draws: int, moments: bool) -> Row:
    """The bias of each draw, and what they have in common."""
    biases, errors = [], []
    for seed in range(draws):
        fit = fit_additive(draw(size, 1000 * size + seed, moments))
        rng = random.Random(10**6 + seed)
        fresh = [network(rng) for _ in range(FRESH)]
        misses = [fit.predict(layers).total.energy_j / price(layers) - 1 for layers in fresh]
        biases.append(fmean(misses))
        errors.append(fmean(map(abs, misses)))
        sys.stderr.write(f"\r{size:4} rows, draw {seed + 1:3} of {draws:<3}")
    sys.stderr.write("\n")
    return {
        "rows": size,
        "moments": "many" if moments else "one",
        "draws": draws,
        "bias": fmean(biases),
        "error": stdev(biases) / math.sqrt(draws) if draws > 1 else math.nan,
        "mape": fmean(errors),
    }


def table(rows: Sequence[Row]) -> str:
    limit = f"below {100 * MOST:g} %"
    lines = [f"| moments | rows | draws | bias % | ± | MAPE % | {limit} |", "|---" * 7 + "|"]
    for row in rows:
        cells = [row["moments"], str(row["rows"]), str(row["draws"]), f"{100 * row['bias']:+.2f}"]
        cells += [f"{100 * row['error']:.2f}", f"{100 * row['mape']:.2f}"]
        cells.append("yes" if abs(row["bias"]) < MOST else "no")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="of rows")
    parser.add_argument("--total", type=int, default=TOTAL, help="rows of all draws of a size")
    parser.add_argument("--out", type=Path, default=RESULTS / "bias.json")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/paper/accuracy.md alone")
    options = parser.parse_args(arguments)
    rows = [
        examine(size, max(options.total // size, 2), moments)
        for moments in (False, True)
        for size in options.sizes
    ]
    machine = machine_line({})
    options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    text = (
        f"Fitted on: {machine} Noise of {NOISE:.0%}; ± is the standard error of the mean over the"
        f" draws.\n\n{table(rows)}"
    )
    print(text)
    if not options.no_docs:
        write_section("accuracy.md", "bias", text)


if __name__ == "__main__":
    main()
