"""Stride: how long steps take, and which pauses between them are something else.

Validation, checkpoints and a person who stops a program all look alike from inside a loop: the next
step comes late. What is longer than a few usual steps is an interlude; the excess is its length.
"""

from __future__ import annotations

import math

LATE = 4.0  # times the usual step
LATE_S = 0.05  # and so many seconds more: a hiccup of the system is no interlude
SEEN = 3  # steps before anything is called usual
SHARE = 0.1  # of a new step in what is usual


class Stride:
    """Told of every step; answers with the length of the interlude before it, if there was one."""

    def __init__(self) -> None:
        self._usual_s = math.nan
        self._seen = 0
        self._last_s: float | None = None

    @property
    def usual_s(self) -> float:
        """Seconds of a usual step; NaN before there was one."""
        return self._usual_s

    def rest(self, now_s: float) -> None:
        """What lies before this moment belongs to no step."""
        self._last_s = now_s

    def step(self, now_s: float, count: int = 1) -> float:
        """Steps that end now; returns the seconds of an interlude among them, mostly 0."""
        last_s, self._last_s = self._last_s, now_s
        if last_s is None:
            return 0.0
        took_s = (now_s - last_s) / count
        usual_s = self._usual_s
        if self._seen < SEEN:
            # The first steps are slow (compilation, caches): the fastest of them is the usual one.
            self._usual_s = took_s if math.isnan(usual_s) else min(usual_s, took_s)
            self._seen += 1
            return 0.0
        if took_s > LATE * usual_s and count * (took_s - usual_s) > LATE_S:
            return count * (took_s - usual_s)
        self._usual_s += SHARE * (took_s - usual_s)
        return 0.0
