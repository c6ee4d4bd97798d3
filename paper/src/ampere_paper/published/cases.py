"""Cases: questions to published energies; some rows are known, the others are asked for."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ampere.estimators.additive import fit_additive
from ampere.estimators.base import Fit
from ampere.estimators.flops import fit_flops_affine
from ampere.estimators.roofline import fit_roofline
from ampere.profiles.estimate import interval
from ampere.records.measurement import Measurement
from ampere_paper.published.datasets import Recorded

METHODS: Mapping[str, Callable[[Sequence[Measurement]], Fit]] = {
    "additive": fit_additive,
    "roofline": fit_roofline,
    "flops_affine": fit_flops_affine,
}
LONG = 6  # values of a sweep, for half of them to show its course

Networks = Sequence[Measurement]
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A question: what is known, and what is asked, several times over."""

    name: str
    splits: tuple[tuple[Networks, Networks], ...]
    bar: float | None = None  # MAPE that the additive method should reach


def make_cases(
    sets: Mapping[str, Recorded], swept: Sequence[Recorded], seeds: int = 5
) -> list[Case]:
    """Every question, with so many random splits at most."""
    layers = (sets["conv"], sets["linear"])
    return [
        drawn(sets["ecnas"], 20, seeds, bar=0.03),
        drawn(sets["ecnas"], 40, seeds, bar=None),
        by_depth(sets["broadwell"], (1, 3, 7, 15), bar=0.03),
        by_depth(sets["broadwell"], (1, 2, 3), bar=0.07),
        *(drawn(data, 160, min(seeds, 3), bar=0.16) for data in layers),
        alternating(swept),
    ]


def drawn(data: Recorded, training_size: int, seeds: int, bar: float | None) -> Case:
    """Some rows drawn at random, half of them at most; the rest is asked."""
    training_size, splits = min(training_size, len(data.rows) // 2), []
    for seed in range(seeds):
        rows = random.Random(seed).sample(data.rows, len(data.rows))
        splits.append((rows[:training_size], rows[training_size:]))
    return Case(f"{data.name}, any {training_size} of {len(data.rows)}", tuple(splits), bar)


def by_depth(data: Recorded, depths: Sequence[int], bar: float) -> Case:
    """Networks of these depths at every second width; all others are asked."""
    widths = sorted({row.layers[0].widths["width"] for row in data.rows})[::2]

    def is_known(row: Measurement) -> bool:
        hidden = row.layers[0]
        return hidden.count in depths and hidden.widths["width"] in widths

    known = [row for row in data.rows if is_known(row)]
    asked = [row for row in data.rows if not is_known(row)]
    name = f"{data.name}, {'/'.join(map(str, depths))} hidden layers at {len(widths)} widths"
    return Case(name, ((known, asked),), bar)


def alternating(swept: Sequence[Recorded]) -> Case:
    """Every second value of each long sweep; the others are asked."""
    long = [data for data in swept if len(data.rows) >= LONG]
    splits = tuple((data.rows[::2], data.rows[1::2]) for data in long)
    return Case(f"{len(long)} sweeps of one setting, every second value", splits)


def examine(case: Case, method: str) -> Row:
    """Fit what is known of each split, and compare what it says with what is asked."""
    errors: list[list[float]] = []
    inside: list[list[bool]] = []
    seconds: list[float] = []
    left_out = 0
    for known, asked in case.splits:
        start = time.perf_counter()
        fit = METHODS[method](known)
        seconds.append(time.perf_counter() - start)
        left_out += len(getattr(fit, "rejected", ()))
        errors.append([])
        inside.append([])
        for row in asked:
            total = fit.predict(row.layers).total
            low, high = interval(total.energy_j, total.energy_j_std)
            errors[-1].append(abs(total.energy_j / row.energy_j - 1))
            inside[-1].append(low <= row.energy_j <= high)
    mape, coverage = (list(map(statistics.fmean, splits)) for splits in (errors, inside))
    return {
        "case": case.name,
        "method": method,
        "known": [len(known) for known, _ in case.splits],
        "asked": [len(asked) for _, asked in case.splits],
        "mape": statistics.fmean(mape),
        "bar": case.bar if method == "additive" else None,
        "median_error": statistics.median(error for split in errors for error in split),
        "coverage": statistics.fmean(coverage),
        "left_out": left_out,
        "fit_s": statistics.median(seconds),
        "mape_by_split": mape,
        "coverage_by_split": coverage,
    }


def summary(data: Recorded) -> Row:
    """What may be kept of a data set: counts, no data."""
    return {
        "set": data.name,
        "networks": len(data.rows),
        "repeat": data.repeat,
        "rejected": data.rejected,
    }
