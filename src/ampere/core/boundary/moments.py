"""Moments: dates and times of day as TOML has them, in seconds since something begins.

    2026-11-19T06:00:00+01:00     says itself when that is
    2026-11-19T06:00:00           needs a zone: `Europe/Berlin`, `+01:00` or `UTC`
    06:00:00                      the next one in that zone

A file means the same wherever it is read: the zone of the machine is never asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone, tzinfo
from typing import TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from ampere.core.boundary.fields import Fields, shown
from ampere.errors import DataError

ZONE_FORMS = "write it as Europe/Berlin, +01:00 or UTC"
DAY = timedelta(days=1)

Stated: TypeAlias = datetime | time  # what TOML makes of a moment; a date alone is none
STATED = (datetime, time)

_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


def parse_moment(text: str) -> float:
    """Seconds since 1970 of ISO 8601; without an offset it is UTC.

    Raises:
        DataError: It is something else.
    """
    return _moment(text).timestamp()


def utc_moment(fields: Fields, name: str) -> str:
    """A moment of a row as everybody reads it: ISO 8601, in UTC.

    Raises:
        DataError: It is something else.
    """
    text = fields.text(name, most=50)
    try:
        return _moment(text).isoformat()
    except DataError as error:
        raise DataError(f"{fields.place(name)}: {error}") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise DataError(f"{shown(text)} is no moment: write it like 2026-05-01T08:00:00Z") from None


def parse_zone(text: str) -> tzinfo:
    """Where times without an offset are meant.

    Raises:
        DataError: It is no zone.
    """
    typed = text.strip()
    if typed in ("UTC", "Z"):
        return timezone.utc
    if offset := _OFFSET.fullmatch(typed):
        sign = -1 if offset[1] == "-" else 1
        return timezone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3])))
    try:
        return ZoneInfo(typed)
    except (ValueError, OSError, KeyError):  # of which `ZoneInfoNotFoundError` is one
        advice = ZONE_FORMS
        if not available_timezones():  # as on Windows: then any name would be refused
            advice = "no zones are installed here: pip install tzdata, or write +01:00 or UTC"
        raise DataError(f"{shown(text)} is no zone that is known here: {advice}") from None


@dataclass(frozen=True)
class Calendar:
    """When something begins, in seconds since 1970, and the zone of times without an offset."""

    begins_s: float
    zone: tzinfo | None = None

    def seconds(self, stated: Stated) -> float:
        """From the beginning to a moment; below 0 if it has passed. A time of day is the next one.

        Raises:
            DataError: Nobody knows which moment that is.
        """
        if isinstance(stated, time):
            return self.after(stated, 0.0)
        if stated.tzinfo is None:
            stated = self._placed(stated)
        try:
            return stated.timestamp() - self.begins_s
        except (OverflowError, ValueError, OSError):
            raise DataError(f"{stated.isoformat()} is beyond all calendars") from None

    def after(self, stated: time, start_s: float) -> float:
        """The first such time of day that is not before a moment."""
        later = [each for each in self._days(stated, start_s) if each[0] >= start_s]
        return self.seconds(min(later)[1])

    def before(self, stated: time, end_s: float) -> float:
        """The last such time of day that is before a moment."""
        earlier = [each for each in self._days(stated, end_s) if each[0] < end_s]
        return self.seconds(max(earlier)[1])

    def _days(self, stated: time, around_s: float) -> list[tuple[float, datetime]]:
        """That time of day on the days around a moment, with its seconds."""
        zone = self._zone(stated.isoformat())
        there = datetime.fromtimestamp(self.begins_s + around_s, zone).date()
        days = [datetime.combine(there + number * DAY, stated) for number in (-2, -1, 0, 1, 2)]
        return [(day.replace(tzinfo=zone).timestamp() - self.begins_s, day) for day in days]

    def _placed(self, stated: datetime) -> datetime:
        """A local time where it is meant."""
        text = stated.isoformat()
        first = stated.replace(tzinfo=self._zone(text), fold=0)
        if first.utcoffset() != first.replace(fold=1).utcoffset():
            raise DataError(
                f"{text} is there twice or never, since clocks are changed: write its offset, like"
                f" {text}+01:00"
            )
        return first

    def _zone(self, text: str) -> tzinfo:
        if self.zone is None:
            raise DataError(
                f"{text} has no offset: write a moment like 2026-11-19T06:00:00+01:00, or say the"
                ' zone that is meant, like zone = "Europe/Berlin"'
            )
        return self.zone
