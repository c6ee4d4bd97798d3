"""Extracts: files of public data sets, read line by line, and what several lines make together."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.errors import DataError, FaultyReading
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement

FLOAT = 4  # bytes
# FLOPs of a training step for each multiply-accumulate of a forward pass: the pass itself, the
# weights' gradient and, unless the layer stands first, that of its input.
WHOLE, FIRST = 6, 4

Run = tuple[float | None, float | None]  # joules, unless they cannot be true, and seconds
Tags = Mapping[str, str]


@dataclass(frozen=True)
class Recorded:
    """A data set as measurements.

    `rejected` rows are faults of a meter. `repeat` is the mean relative deviation of one repeat
    from the mean of its repeats, None where nothing was repeated: the floor for a single run. What
    is asked are means, whose own floor is lower. `times_s` stand beside the rows, not in them,
    where they would be fitted as well; None where nobody took them. `tags` are what else is known
    of each row, by names such as `network`; {} where nobody asks.
    """

    name: str
    rows: tuple[Measurement, ...]
    rejected: int
    repeat: float | None
    times_s: tuple[float | None, ...] = ()
    tags: tuple[Tags, ...] = ()


def records(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a file of columns.

    Raises:
        DataError: It cannot be read.
    """
    try:
        return list(csv.DictReader(io.StringIO(_text(folder / name), newline="")))
    except csv.Error as error:
        raise DataError(f"{folder / name} cannot be read: {error}") from None


def metered_rows(folder: Path, name: str) -> list[tuple[Fields, Measurement | None]]:
    """The lines of a file of rows, each with all of its fields; None if its joules cannot be true.

    Raises:
        DataError: It cannot be read, or a line is no row.
    """
    rows: list[tuple[Fields, Measurement | None]] = []
    for i, line in enumerate(_text(folder / name).split("\n"), 1):
        if not line.strip():
            continue
        place = f"{folder / name} line {i}:"
        try:
            row = parse_json(line)
            measured = _measurement(row)
        except DataError as error:
            raise DataError(f"{place} {error}") from None
        rows.append((Fields(row, place), measured))
    return rows


def _measurement(row: Json) -> Measurement | None:
    """A row of a step that was metered, unless its joules cannot be true."""
    try:
        measured = Measurement.from_json(row)
    except FaultyReading:
        return None
    return measured if measured.failed is None else None


def _text(file: Path) -> str:
    try:
        return read_whole(file, own=True).decode("utf-8-sig")
    except (OSError, DataError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{file} cannot be read: {reason}") from None


def averaged(name: str, metered: Iterable[tuple[tuple[Layer, ...], Sequence[Run]]]) -> Recorded:
    """One measurement a network from its repeats, leaving out what cannot be true."""
    rows: list[Measurement] = []
    times_s: list[float | None] = []
    deviations: list[float] = []
    rejected = 0
    for layers, runs in metered:
        energies_j = [energy_j for energy_j, _ in runs if energy_j is not None and energy_j > 0]
        rejected += len(runs) - len(energies_j)
        if not energies_j:
            continue
        mean = statistics.fmean(energies_j)
        spread = statistics.stdev(energies_j) / mean if len(energies_j) > 1 else 0.0
        if len(energies_j) > 1:
            deviations += [abs(energy_j / mean - 1) for energy_j in energies_j]
        rows.append(
            Measurement(
                layers,
                mean,
                spread=spread,
                repeats=len(energies_j),
                provenance=Provenance.RECORDED,
            )
        )
        times_s.append(_mean_time_s(runs))
    repeat = statistics.fmean(deviations) if deviations else None
    return Recorded(name, tuple(rows), rejected, repeat, tuple(times_s))


def _mean_time_s(runs: Sequence[Run]) -> float | None:
    """Of the runs whose joules are true; None where one of them has no seconds."""
    times_s = [time_s for energy_j, time_s in runs if energy_j is not None and energy_j > 0]
    taken = [time_s for time_s in times_s if time_s is not None]
    return statistics.fmean(taken) if len(taken) == len(times_s) else None


def joules(text: str) -> float | None:
    """Joules, unless they are no number."""
    energy_j = float(text)
    return energy_j if math.isfinite(energy_j) else None


def number(row: Mapping[str, str], column: str) -> float | None:
    """A number that not every extract has."""
    text = row.get(column)
    return float(text) if text else None
