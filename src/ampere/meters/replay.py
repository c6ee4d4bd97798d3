"""Replays a log that a real meter wrote, so that its readings can be used without the hardware.

The log is CSV: `time_s,energy_j` with running totals, or `time_s,power_w`, which is integrated by
the trapezoidal rule. Each reading is the next row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.meter import Provenance, Reading


class ReplayMeter:
    """Recorded joules: one row of a CSV log a reading."""

    name: ClassVar[str] = "replay"
    provenance: ClassVar[Provenance] = Provenance.RECORDED
    summary: ClassVar[str] = "replays a CSV log of another meter (replay:path=log.csv)"

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._totals = _read_totals(self._path)
        self._next = 0

    @classmethod
    def obstacle(cls) -> str | None:
        """None: the log is looked for when the meter is opened."""
        return None

    def read(self) -> Reading:
        """The next row of the log."""
        if self._next == len(self._totals):
            raise MeterError(
                f"{self._path}: log is exhausted after {self._next} readings; record a longer one"
            )
        time_s, energy_j = self._totals[self._next]
        self._next += 1
        return Reading(energy_j, time_s, self.provenance)


def _read_totals(path: Path) -> list[tuple[float, float]]:
    """All rows as (seconds, joules so far); the whole log is checked before any of it is used."""
    try:
        header, *lines = path.read_text(encoding="utf-8-sig").splitlines() or [""]
    except OSError as error:
        raise MeterError(f"{path} cannot be read ({error.strerror}); give another path") from error
    except UnicodeDecodeError as error:
        raise MeterError(f"{path} is not a text file; give another path") from error
    first, _, column = header.replace(" ", "").partition(",")
    if first != "time_s" or column not in ("energy_j", "power_w"):
        raise MeterError(f"{path}, line 1: the header must be time_s,energy_j or time_s,power_w")
    rows = list(_rows(path, lines, column))
    if not rows:
        raise MeterError(f"{path} holds no readings; record some first")
    return rows if column == "energy_j" else _integrate(rows)


def _rows(path: Path, lines: list[str], column: str) -> Iterator[tuple[float, float]]:
    last_s = last_j = -math.inf
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            time_s, value = map(float, line.split(","))
        except ValueError:
            raise MeterError(f"{where}: {line!r} is not two numbers; correct the log") from None
        if not (math.isfinite(time_s) and math.isfinite(value)):
            raise MeterError(f"{where}: {line!r} is not finite; correct the log")
        if time_s < last_s:
            raise MeterError(f"{where}: time runs back from {last_s:g} to {time_s:g} s; correct it")
        if column == "energy_j" and value < last_j:
            raise MeterError(f"{where}: the total falls from {last_j:g} to {value:g} J; correct it")
        if column == "power_w" and value < 0:
            raise MeterError(f"{where}: power is negative ({value:g} W); correct it")
        last_s, last_j = time_s, value
        yield time_s, value


def _integrate(powers: list[tuple[float, float]]) -> list[tuple[float, float]]:
    steps = (
        (last_w + power_w) / 2 * (time_s - last_s)
        for (last_s, last_w), (time_s, power_w) in pairwise(powers)
    )
    times = (time_s for time_s, _ in powers)
    return list(zip(times, accumulate(steps, initial=0.0), strict=True))
