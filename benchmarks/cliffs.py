"""Cliffs: are intervals right on a device that no formula of the method describes?

    python benchmarks/cliffs.py            # a minute or two; writes docs/paper/accuracy.md

Convolutional networks of any width on devices made up of what real ones have: the larger of the
time of FLOPs and of bytes, a cache that ends, widths that are done in tiles, kernels that start
slowly and are slow at some sizes, and power that rises with the load. Each network is metered once,
with 2 % of noise. `as believed` is what intervals would hold that are not widened by rows that were
left out.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bias import BATCH, linear
from machine import RESULTS, machine_line, write_section

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.estimators.fitting import fit_additive
from ampere.estimators.intervals import interval
from ampere.records.measurement import Measurement

NOISE = 0.02
SIZES, DRAWS, FRESH = (5, 10, 20, 40, 160), 8, 40
THIRDS = 3
WIDEST = 256
SLOWER = {1: 0.35, 3: 1.0, 5: 0.55}  # what part of the peak a kernel of this size reaches

Row = dict[str, Any]


@dataclass(frozen=True)
class Chip:
    """A device: FLOPs and bytes a second, and what makes it no straight line."""

    peak: float
    near: float  # bytes a second within the cache
    far: float  # and beyond
    cache: float
    start_s: float
    tile: int
    idle_w: float
    busy_w: float

    def joules(self, layer: Layer) -> float:
        """Of a layer in a step."""
        flops, *moved = (number or 0.0 for number in layer.features.numbers)
        worked_on, width = 3 * sum(moved), max(layer.widths.values())
        beyond = 1 / (1 + (self.cache / worked_on) ** 6)
        reached = SLOWER[layer.kind.attributes.get("kernel", 3)] * self.peak
        computing = flops * (-(-width // self.tile) * self.tile / width) / reached
        moving = worked_on * ((1 - beyond) / self.near + beyond / self.far)
        time_s = self.start_s + max(computing, moving)
        return time_s * (self.idle_w + self.busy_w * flops / self.peak / time_s)


CHIPS: Mapping[str, Chip] = {
    "GPU": Chip(8e12, 2e12, 3e11, 6e6, 3e-5, 64, 40.0, 120.0),
    "CPU": Chip(1.2e11, 6e10, 1.2e10, 2e6, 6e-5, 16, 6.0, 12.0),
    "phone": Chip(2e10, 1e10, 4e9, 5e5, 1e-3, 8, 0.8, 2.2),
}


def convolution(role: Role, n_in: int, n_out: int, side: int, kernel: int) -> Layer:
    pixels, weights = BATCH * side**2, kernel**2 * n_in * n_out
    features = Features(6.0 * weights * pixels, 8.0 * (n_in + n_out) * pixels, 4.0 * weights)
    told = {"side": side, "batch": BATCH, "kernel": kernel}
    kind = LayerKind(f"{role.value} conv {kernel} @{side}", role, "conv", told)
    return Layer("conv", kind, Widths({"in": n_in, "out": n_out}), features)


def network(rng: random.Random) -> tuple[Layer, ...]:
    """Convolutions of any width and kernel on smaller and smaller maps, and a classifier."""
    layers, before, side = [], 3, 32
    for i in range(rng.randint(2, 6)):
        width, kernel = round(4 * (WIDEST / 4) ** rng.random()), rng.choice((1, 3, 3, 5))
        role = Role.HIDDEN if i else Role.FIRST
        layers.append(convolution(role, before, width, side, kernel))
        before, side = width, max(side // rng.choice((1, 2)), 4)
    return *layers, linear(before)


def price(chip: Chip, layers: Sequence[Layer]) -> float:
    """Joules of a step, as they are in truth."""
    return 40 * chip.start_s * chip.idle_w + math.fsum(map(chip.joules, layers))


def drawn(chip: Chip, rng: random.Random, size: int) -> list[Measurement]:
    """Random networks, as they are metered."""
    rows = []
    for _ in range(size):
        layers = network(rng)
        rows.append(Measurement(layers, price(chip, layers) * math.exp(rng.gauss(0.0, NOISE))))
    return rows


def examine(chip: Chip, size: int, draws: int) -> Row:
    """What is told of networks that were not seen."""
    errors, stretches, believed = [], [], []
    inside: list[list[bool]] = [[] for _ in range(THIRDS)]
    for seed in range(draws):
        rng = random.Random(1000 * size + seed)
        fit = fit_additive(drawn(chip, rng, size))
        stretch = fit.energy.solution.stretch
        stretches.append(stretch)
        asked = sorted(drawn(chip, rng, FRESH), key=lambda row: row.energy_j)
        for place, row in enumerate(asked):
            said = fit.predict(row.layers).total
            errors.append(said.energy_j / row.energy_j - 1)
            low, high = interval(said.energy_j, said.energy_j_std)
            inside[THIRDS * place // FRESH].append(low <= row.energy_j <= high)
            low, high = interval(said.energy_j, said.energy_j_std / stretch)
            believed.append(low <= row.energy_j <= high)
    return {
        "rows": size,
        "mape": fmean(map(abs, errors)),
        "bias": fmean(errors),
        "inside": fmean(each for third in inside for each in third),
        "thirds": [fmean(third) for third in inside],
        "believed": fmean(believed),
        "stretch": fmean(stretches),
    }


def table(rows: Sequence[Row]) -> str:
    lines = ["| device | rows | MAPE % | bias % | inside 90 % | thirds | as believed | stretch |"]
    lines.append("|---" * 8 + "|")
    for row in rows:
        thirds = " / ".join(f"{100 * each:.0f}" for each in row["thirds"])
        cells = [row["device"], str(row["rows"]), f"{100 * row['mape']:.1f}"]
        cells += [f"{100 * row['bias']:+.1f}", f"{100 * row['inside']:.0f}", thirds]
        cells += [f"{100 * row['believed']:.0f}", f"{row['stretch']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=DRAWS, help="of the rows of each line")
    parser.add_argument("--out", type=Path, default=RESULTS / "cliffs.json")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/paper/accuracy.md alone")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name, chip in CHIPS.items():
        for size in SIZES:
            rows.append({"device": name, **examine(chip, size, options.draws)})
            sys.stderr.write(f"{name}, {size} rows: {rows[-1]['inside']:.0%}\n")
    machine = machine_line({})
    options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    text = f"Fitted on: {machine} Noise of {NOISE:.0%}; {options.draws} draws.\n\n{table(rows)}"
    print(text)
    if not options.no_docs:
        write_section("accuracy.md", "cliffs", text)


if __name__ == "__main__":
    main()
