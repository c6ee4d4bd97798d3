"""Cases: questions to published energies; some rows are known, the others are asked for."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ampere.records.measurement import Measurement
from ampere_paper.published.extracts import Recorded, Tags

LONG = 6  # values of a sweep, for half of them to show its course

Networks = Sequence[Measurement]


@dataclass(frozen=True)
class Split:
    """What is known, and what is asked; `tags` tell what is asked apart, where that is of use."""

    known: Networks
    asked: Networks
    tags: Sequence[Tags] = ()


@dataclass(frozen=True)
class Case:
    """A question, several times over.

    `bar` is the mean error that the additive method should reach, `median_bar` the median one;
    `repeat` is that of the data set, the floor for a single run. Answers are counted by each of
    `parts` as well, tags of what is asked.
    """

    name: str
    splits: tuple[Split, ...]
    bar: float | None = None
    repeat: float | None = None
    median_bar: float | None = None
    parts: tuple[str, ...] = ()


def make_cases(
    sets: Mapping[str, Recorded], swept: Sequence[Recorded], seeds: int = 5
) -> list[Case]:
    """The questions that `ampere reproduce` asks, with so many random splits at most."""
    few = min(seeds, 3)
    return [
        drawn(sets["ecnas"], 20, seeds, bar=0.025),
        drawn(sets["ecnas"], 40, seeds, bar=None),
        by_depth(sets["broadwell"], (1, 3, 7, 15), bar=0.02),
        by_depth(sets["broadwell"], (1, 2, 3), bar=0.07),
        drawn(sets["conv"], 160, few, bar=0.12),
        drawn(sets["linear"], 160, few, bar=0.13),
        alternating(swept),
    ]


def more_cases(
    broadwell: Recorded, board: Recorded, gpus: Sequence[Recorded], seeds: int = 5
) -> list[Case]:
    """The questions that benchmarks ask besides."""
    return [
        by_depth(broadwell, (1, 2, 3), bar=0.05, deepest=True),
        by_network(board, 14, seeds, bar=0.12, median_bar=0.07),
        on_each(gpus, 40, min(seeds, 3), bar=0.055),
    ]


def drawn(data: Recorded, training_size: int, seeds: int, bar: float | None) -> Case:
    """Some rows drawn at random, half of them at most; the rest is asked."""
    training_size = min(training_size, len(data.rows) // 2)
    splits = tuple(_draw(data, training_size, seed) for seed in range(seeds))
    return Case(f"{data.name}, any {training_size} of {len(data.rows)}", splits, bar, data.repeat)


def _draw(data: Recorded, training_size: int, seed: int) -> Split:
    order = random.Random(seed).sample(range(len(data.rows)), len(data.rows))
    return _split(data, order[:training_size], order[training_size:])


def _split(data: Recorded, known: Sequence[int], asked: Sequence[int]) -> Split:
    """Rows by their numbers."""
    return Split(
        [data.rows[i] for i in known],
        [data.rows[i] for i in asked],
        [data.tags[i] for i in asked] if data.tags else (),
    )


def by_depth(data: Recorded, depths: Sequence[int], bar: float, deepest: bool = False) -> Case:
    """Networks of these depths at every second width; all others are asked.

    With `deepest`, one more is known: the deepest network, at the middle one of its widths.
    """
    widths = sorted({_width(row) for row in data.rows})[::2]
    known = {
        i
        for i, row in enumerate(data.rows)
        if row.layers[0].count in depths and _width(row) in widths
    }
    name = f"{data.name}, {'/'.join(map(str, depths))} hidden layers at {len(widths)} widths"
    if deepest:
        depth = max(row.layers[0].count for row in data.rows)
        deep = [i for i, row in enumerate(data.rows) if row.layers[0].count == depth]
        known.add(sorted(deep, key=lambda i: _width(data.rows[i]))[len(deep) // 2])
        name += " plus one deep row"
    asked = [i for i in range(len(data.rows)) if i not in known]
    return Case(name, (_split(data, sorted(known), asked),), bar, data.repeat)


def _width(row: Measurement) -> int:
    return row.layers[0].widths["width"]


def by_network(
    data: Recorded, training_size: int, seeds: int, bar: float, median_bar: float
) -> Case:
    """Some networks drawn at random, half of them at most, with all of their settings.

    Never by row: the same network with another optimiser would be known already.
    """
    archs = list(dict.fromkeys(tags["arch"] for tags in data.tags))
    training_size = min(training_size, len(archs) // 2)
    splits = []
    for seed in range(seeds):
        chosen = set(random.Random(seed).sample(archs, training_size))
        numbers = range(len(data.rows))
        known = [i for i in numbers if data.tags[i]["arch"] in chosen]
        splits.append(_split(data, known, [i for i in numbers if i not in set(known)]))
    name = f"{data.name}, any {training_size} of {len(archs)} networks"
    parts = ("network", "optimiser")
    return Case(name, tuple(splits), bar, data.repeat, median_bar, parts)


def on_each(every: Sequence[Recorded], training_size: int, seeds: int, bar: float) -> Case:
    """Some rows of each device by itself, half of them at most; the bar is for their mean."""
    cases = [drawn(data, training_size, seeds, bar=None) for data in every]
    splits = tuple(split for case in cases for split in case.splits)
    known = max((len(split.known) for split in splits), default=0)
    name = f"GPU linear, any {known} of each of {len(every)} GPUs"
    return Case(name, splits, bar, _typical(every), parts=("GPU",))


def alternating(swept: Sequence[Recorded]) -> Case:
    """Every second value of each long sweep; the others are asked."""
    long = [data for data in swept if len(data.rows) >= LONG]
    splits = tuple(Split(data.rows[::2], data.rows[1::2]) for data in long)
    name = f"{len(long)} sweeps of one setting, every second value"
    return Case(name, splits, None, _typical(long))


def _typical(every: Sequence[Recorded]) -> float | None:
    """What a repeat typically deviates by in some data sets."""
    repeats = [data.repeat for data in every if data.repeat is not None]
    return statistics.fmean(repeats) if repeats else None
