"""Hours: what changes with the time of day or from hour to hour, read from a file of two columns.

    hour,value                        of every day: 0 to 23
    time,value                        2026-01-31T14:00+01:00, or seconds since 1970

Hours of a day, and times without a zone, are this machine's.
"""

from __future__ import annotations

import csv
import math
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import TypeAlias

from ampere.core.boundary.fields import shown
from ampere.core.boundary.files import read_whole
from ampere.errors import DataError

MOST_BYTES = 32 * 2**20  # a year of five minutes has 3 MB
MOST = 1e9  # of any value
DAY_S, HOUR_S = 86400.0, 3600.0

Column: TypeAlias = Callable[[str], tuple[str, float] | None]

_TIMES = ("time", "timestamp", "datetime")


@dataclass(frozen=True)
class Hours:
    """Values that each hold from one moment to another, in order.

    Moments are seconds since 1970, or since midnight where all days are alike.
    """

    begins_s: tuple[float, ...]
    ends_s: tuple[float, ...]
    values: tuple[float, ...]
    unit: str = ""
    daily: bool = False

    @property
    def mean(self) -> float:
        """Over all that is known."""
        lengths = [end - begin for begin, end in zip(self.begins_s, self.ends_s, strict=True)]
        weighed = (value * s for value, s in zip(self.values, lengths, strict=True))
        return math.fsum(weighed) / math.fsum(lengths)

    def over(self, begin_s: float, end_s: float) -> tuple[float, float]:
        """The mean of a window, and which share of it is known; the mean of all stands in."""
        parts = list(self._parts(begin_s, end_s))
        length = end_s - begin_s
        known = min(math.fsum(seconds for _, seconds in parts), length)
        weighed = math.fsum(value * seconds for value, seconds in parts)
        return (weighed + self.mean * (length - known)) / length, known / length

    def _parts(self, begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        """Values and the seconds that they hold within a window."""
        if not self.daily:
            yield from self._overlaps(begin_s, end_s)
            return
        offset = datetime.fromtimestamp(begin_s).astimezone().utcoffset()
        midnight_s = (begin_s + (offset.total_seconds() if offset else 0.0)) % DAY_S
        days, rest_s = divmod(end_s - begin_s, DAY_S)
        for value, begin, end in zip(self.values, self.begins_s, self.ends_s, strict=True):
            yield value, days * (end - begin)
        for turn_s in (0.0, DAY_S):  # what is left may reach into the next day
            yield from self._overlaps(midnight_s - turn_s, midnight_s + rest_s - turn_s)

    def _overlaps(self, begin_s: float, end_s: float) -> Iterator[tuple[float, float]]:
        for i in range(max(bisect_right(self.begins_s, begin_s) - 1, 0), len(self.values)):
            if self.begins_s[i] >= end_s:
                return
            seconds = min(end_s, self.ends_s[i]) - max(begin_s, self.begins_s[i])
            if seconds > 0:
                yield self.values[i], seconds


def read_hours(
    path: str | os.PathLike[str], column: Column, forms: str, least: float = 0.0
) -> Hours:
    """Read a file of hours.

    Args:
        path: Where it is.
        column: Tells of a column's title the unit that is kept, and by what values are multiplied
            into it; of another title, None.
        forms: What can be given: said where the columns are others.
        least: The least value that can be, in the unit that is kept.

    Raises:
        DataError: It cannot be read, or says something else; the line is named.
    """
    name = os.fspath(path)
    try:
        return _read_rows(read_whole(path, MOST_BYTES).decode("utf-8-sig"), column, forms, least)
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DataError(f"{name} is no UTF-8 text: write hour,value or time,value") from None
    except csv.Error as error:
        raise DataError(f"{name} is no CSV: {error}") from None
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _read_rows(text: str, column: Column, forms: str, least: float) -> Hours:
    rows = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(csv.reader(text.splitlines()), 1)
        if any(cell.strip() for cell in row)
    ]
    titles = rows[0][1] if rows else []
    first = titles[0].lower() if titles else ""
    known = column(titles[1]) if len(titles) == 2 and first in ("hour", *_TIMES) else None
    if known is None:
        raise DataError(f"its first line is {shown(','.join(titles))}: {forms}")
    unit, scale = known
    moment = _hour if first == "hour" else _time
    moments: list[float] = []
    values: list[float] = []
    for number, row in rows[1:]:
        if len(row) != 2:
            raise DataError(f"line {number} has {len(row)} cells instead of 2")
        moments.append(moment(row[0], number))
        values.append(_value(row[1], number, scale, least))
        if len(moments) > 1 and not moments[-1] > moments[-2]:
            raise DataError(f"line {number}: {shown(row[0])} does not come after the line above")
    if not values:
        raise DataError("it has no rows")
    return replace(_held(moments, values, daily=first == "hour"), unit=unit)


def _held(moments: list[float], values: list[float], daily: bool) -> Hours:
    """A value holds until the next; where rows are missing, as long as others do."""
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    usual_s = HOUR_S if daily or not gaps else median(gaps)
    nexts = [*moments[1:], math.inf]
    ends = [min(begin + usual_s, after) for begin, after in zip(moments, nexts, strict=True)]
    return Hours(tuple(moments), tuple(ends), tuple(values), daily=daily)


def _hour(cell: str, number: int) -> float:
    if not re.fullmatch(r"\d{1,2}", cell, re.ASCII) or int(cell) > 23:
        raise DataError(f"line {number}: {shown(cell)} is no hour of a day from 0 to 23")
    return int(cell) * HOUR_S


def _time(cell: str, number: int) -> float:
    try:
        if re.fullmatch(r"\d+(\.\d+)?", cell, re.ASCII):
            return datetime.fromtimestamp(float(cell)).timestamp()
        return datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", cell)).timestamp()
    except (ValueError, OverflowError, OSError):  # the latter: odd years
        raise DataError(
            f"line {number}: {shown(cell)} is no time such as 2026-01-31T14:00+01:00"
        ) from None


def _value(cell: str, number: int, scale: float, least: float) -> float:
    try:
        value = float(cell) * scale
    except ValueError:
        value = math.nan
    if not least <= value <= MOST:
        raise DataError(f"line {number}: {shown(cell)} is no number from {least:g} to {MOST:g}")
    return value
