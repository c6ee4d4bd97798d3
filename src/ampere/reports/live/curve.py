"""Curve: the looks at one run over time, thinned evenly so that no run is too long to show."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_POINTS = 800  # no screen shows more


@dataclass(frozen=True)
class Point:
    """One look at a run; None where nothing is known."""

    time_s: float  # since its first step, without the time between its parts
    spent_j: float
    forecast_j: float | None = None
    forecast_j_interval: tuple[float, float] | None = None
    power_w: float | None = None


@dataclass
class Curve:
    """Every n-th point, n doubled whenever they are too many, and the latest one."""

    _kept: list[Point] = field(default_factory=list)
    _latest: Point | None = None
    _every: int = 1
    _seen: int = 0

    def add(self, point: Point) -> None:
        """Go on to a point."""
        self._latest = point
        if self._seen % self._every == 0:
            self._kept.append(point)
        self._seen += 1
        if len(self._kept) >= MOST_POINTS:
            self._kept = self._kept[::2]
            self._every *= 2

    @property
    def points(self) -> list[Point]:
        """What is kept, in order."""
        latest = self._latest
        more = [] if latest is None or latest is self._kept[-1] else [latest]
        return [*self._kept, *more]

    @property
    def end_s(self) -> float:
        """Where it ends; 0 before its first point."""
        return 0.0 if self._latest is None else self._latest.time_s
