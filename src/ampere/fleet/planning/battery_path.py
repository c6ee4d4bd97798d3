"""BatteryPath: joules in a battery over time, while jobs run and while it is charged.

It takes several courses at once: in each, all jobs take so many times what is expected of them.
Charging stops at the capacity. Watts of doing nothing count while no job runs, and end with the
battery: a device that is empty is off, takes nothing, and is there again once it is charged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array
from ampere.fleet.member import Battery, Charging

HOLDS = 1e-9  # of the capacity: less is rounding


@dataclass(frozen=True)
class Run:
    """A piece of work on a member, from one moment to another."""

    piece: int
    start_s: float
    end_s: float
    energy_j: float


@dataclass(frozen=True)
class BatteryPath:
    """A battery, what charges it, and what runs on it."""

    battery: Battery
    charging: Sequence[Charging]
    idle_w: float
    runs: Sequence[Run]
    until_s: float = 0.0  # it is told to the end of the last job, and to this moment at least

    @cached_property
    def times_s(self) -> Array:
        """Moments at which something begins or ends, up to the last that is told of."""
        last = max((run.end_s for run in self.runs), default=0.0)
        last = max(last, self.until_s)
        moments = {0.0, last, *(run.start_s for run in self.runs), *(r.end_s for r in self.runs)}
        for each in self.charging:
            moments |= {each.span.start_s, each.span.end_s}
        return np.array(sorted(moment for moment in moments if moment <= last))

    @cached_property
    def _flows(self) -> tuple[Array, Array]:
        """Joules between moments that jobs take, and that charging has beyond doing nothing."""
        times = self.times_s
        begins, ends = times[:-1], times[1:]
        length = ends - begins
        taken, busy = np.zeros(len(length)), np.zeros(len(length), dtype=bool)
        for run in self.runs:
            within = (begins >= run.start_s) & (ends <= run.end_s)
            if run.end_s > run.start_s:
                taken[within] += run.energy_j * length[within] / (run.end_s - run.start_s)
            busy |= within
        given = -self.idle_w * length * ~busy
        for each in self.charging:
            within = (begins >= each.span.start_s) & (ends <= each.span.end_s)
            given[within] += each.power_w * length[within]
        return taken, given

    @cached_property
    def _at_once(self) -> Array:
        """Joules that jobs take in no time, by the moment: their seconds are not known."""
        sudden = np.zeros(len(self.times_s))
        for run in self.runs:
            if run.end_s <= run.start_s:
                sudden[np.searchsorted(self.times_s, run.end_s)] += run.energy_j
        return sudden

    def levels_j(self, scales: Array, lowest_j: float = -np.inf) -> Array:
        """Joules in it at each moment, in each course; below 0 is what jobs miss.

        With a lowest level of 0 they are those that it has.
        """
        taken, given = self._flows
        level = np.full(len(scales), self.battery.energy_j) - scales * self._at_once[0]
        level = np.maximum(level, lowest_j)
        levels = [level]
        for place in range(len(taken)):
            level = np.maximum(level + given[place], np.minimum(level, 0.0))  # off when it is empty
            level = level - scales * taken[place]
            level = np.minimum(level, self.battery.capacity_j)
            level = level - scales * self._at_once[place + 1]
            level = np.maximum(level, lowest_j)
            levels.append(level)
        return np.array(levels)

    def lasts(self, scales: Array, until_s: Array) -> Array:
        """Whether the reserve stays in it, in each course up to its own moment.

        Before the first job begins it may be empty: it may be charged meanwhile.
        """
        levels = self.levels_j(scales)
        first = min((run.start_s for run in self.runs), default=0.0)
        floor = np.where(self.times_s >= first, self.battery.reserve_j, 0.0)
        slack = HOLDS * self.battery.capacity_j
        wrong = (levels < floor[:, None] - slack) & (self.times_s[:, None] <= until_s)
        return np.asarray(~wrong.any(axis=0))

    def largest_scales(self, until_s: Array) -> Array:
        """How many times what is expected jobs may take, up to each moment; 0 if it never lasts."""
        low, high = np.zeros(len(until_s)), np.full(len(until_s), 1e4)
        high = np.where(self.lasts(high, until_s), np.inf, high)
        possible = self.lasts(low, until_s)
        top = np.where(np.isinf(high), 1e4, high)
        for _ in range(50):
            middle = np.where(low > 0, np.sqrt(np.maximum(low, 1e-12) * top), top / 2)
            good = self.lasts(middle, until_s)
            low, top = np.where(good, middle, low), np.where(good, top, middle)
        return np.where(np.isinf(high), np.inf, np.where(possible, low, 0.0))
