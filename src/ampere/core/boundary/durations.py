"""Durations: seconds as people write them: `90 s`, `10 min`, `1 h 30 min`, `2h-4h`."""

from __future__ import annotations

import math
import re

from ampere.core.boundary.fields import shown
from ampere.errors import DataError

TIME_FORMS = "write it as 90 s, 10 min, 1 h 30 min or 2 d"
SPAN_FORMS = "write it as 2h-4h, 30min-1h 30min, or 8h- for all that comes after"
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TIME = re.compile(rf"({_NUMBER})\s*(ms|s|min|h|d)\s*", re.ASCII)


def parse_time(text: str) -> float:
    """Seconds of `90 s`, `10 min` or `1 h 30 min`; 0 needs no unit.

    Raises:
        DataError: It is something else.
    """
    typed = text.strip()
    if typed == "0":
        return 0.0
    parts = list(_TIME.finditer(typed))
    if not parts or "".join(part[0] for part in parts) != typed:
        raise DataError(f"{shown(text)} is no time: {TIME_FORMS}")
    return math.fsum(float(part[1]) * SECONDS[part[2]] for part in parts)


def parse_span(text: str) -> tuple[float, float]:
    """The seconds at which `2h-4h` begins and ends; `8h-` never ends.

    Raises:
        DataError: It is something else.
    """
    begin, between, end = text.strip().replace("–", "-").partition("-")
    if not between or not begin.strip():
        raise DataError(f"{shown(text)} is no span of time: {SPAN_FORMS}")
    return parse_time(begin), parse_time(end) if end.strip() else math.inf
