"""Power over time: joules between any two moments of a log, and the pulse that sets its clock."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import check_samples
from ampere.meters.sampler import GAP

_CELLS = 50  # in the shortest part of a pulse
_MOST_CELLS = 1_000_000
_CLEAR = 0.75  # correlation of a pulse that is there
_RIVAL = 0.7  # of the best fit: a second place as good as this may be the pulse as well


@dataclass(frozen=True)
class PowerTrace:
    """Joules so far at each sample of a log, and between which samples they are not to be trusted.

    Args:
        times_s: The log's own clock, rising.
        totals_j: Joules up to each of these times, from an arbitrary start.
        faults: Beginning, end and reason of each part that cannot be trusted.
        lost_s: Those of the times at which there was no sample that can be true.
        counted: The totals are a counter's, and no sums of samples.
    """

    times_s: Sequence[float]
    totals_j: Sequence[float]
    faults: tuple[tuple[float, float, str], ...] = ()
    lost_s: Sequence[float] = ()
    counted: bool = False

    @property
    def start_s(self) -> float:
        """Time of the first sample."""
        return self.times_s[0]

    @property
    def end_s(self) -> float:
        """Time of the last sample."""
        return self.times_s[-1]

    @cached_property
    def period_s(self) -> float:
        """Seconds from one sample to the next, as a rule."""
        return median_step(self.times_s[:1000])

    def total_j(self, time_s: float) -> float:
        """Joules so far at a moment: a straight line between its neighbours.

        Raises:
            MeterError: If the log does not reach there.
        """
        if not self.start_s <= time_s <= self.end_s:
            raise MeterError(
                f"the log covers {self.start_s:.3f} to {self.end_s:.3f} s, not {time_s:.3f} s; "
                "start recording earlier, or give its clock's offset_s"
            )
        right = self._right_of(time_s)
        left_s, right_s = self.times_s[right - 1], self.times_s[right]
        left_j, right_j = self.totals_j[right - 1], self.totals_j[right]
        return left_j + (right_j - left_j) * ((time_s - left_s) / (right_s - left_s))

    def samples_until(self, time_s: float) -> int:
        """How many samples the joules up to a moment rest on."""
        return bisect_right(self.times_s, time_s) - bisect_right(self.lost_s, time_s)

    def check(self, start_s: float, end_s: float) -> None:
        """Refuse what lies between two moments, if any of it cannot be trusted.

        Raises:
            MeterFault: A part of the log is faulty, or a moment far from what a counter showed.
        """
        if end_s < start_s:
            raise MeterFault(f"the clock ran back by {start_s - end_s:g} s; measure again")
        for since_s, until_s, reason in self.faults:
            if since_s < end_s and until_s > start_s:
                raise MeterFault(reason)
        for moment_s in (start_s, end_s) if self.counted else ():
            right = self._right_of(moment_s)
            left_s, right_s = self.times_s[right - 1], self.times_s[right]
            if left_s < moment_s < right_s and right_s - left_s > GAP * self.period_s:
                raise MeterFault(f"the log is silent for {right_s - left_s:.3g} s; measure again")

    def energy_between(self, start_s: float, end_s: float) -> float:
        """Joules from one moment to a later one.

        Raises:
            MeterFault: If a part of the log in between cannot be trusted, or its samples are too
                few (see `check_samples`).
            MeterError: If the log does not reach there.
        """
        self.check(start_s, end_s)
        energy_j = self.total_j(end_s) - self.total_j(start_s)
        if not self.counted:
            samples = self.samples_until(end_s) - self.samples_until(start_s)
            check_samples(samples, end_s - start_s, self.period_s)
        if not math.isfinite(energy_j):
            raise MeterFault("the log's watts add up to no finite number of joules")
        return energy_j

    def find_pulse(self, pattern: Sequence[float], since_s: float = -math.inf) -> float:
        """When a known load began: seconds busy, seconds idle, seconds busy and so on.

        The pattern slides along the log. Where it fits best, the power must follow it closely, and
        no place a step or more away may fit nearly as well.

        Raises:
            MeterError: If it is not clearly there.
        """
        cell_s = min(pattern) / _CELLS
        start_s = max(since_s, self.start_s)
        cells = (self.end_s - start_s) / cell_s
        if not cells < _MOST_CELLS:
            raise MeterError("the log is too long to look for a pulse in it; record a new one")
        totals_j = [self.total_j(start_s + cell * cell_s) for cell in range(int(cells) + 1)]
        fits = _fits(totals_j, cell_s, pattern)
        if not fits:
            raise MeterError("the log is shorter than the pulse; is the recording still running?")
        scores = [power_w * abs(correlation) for power_w, correlation in fits]
        best = max(range(len(scores)), key=scores.__getitem__)
        if not fits[best][1] >= _CLEAR:
            raise MeterError("the pulse cannot be seen in the log; does it show this machine?")
        rivals = scores[: max(best - _CELLS, 0)] + scores[best + _CELLS :]
        if max(rivals, default=0.0) > _RIVAL * scores[best]:
            raise MeterError("the pulse seems to be in the log twice; leave the machine alone")
        return self._refined(pattern, start_s + best * cell_s, cell_s)

    def _right_of(self, time_s: float) -> int:
        """The first sample after a moment, or the last one."""
        return min(bisect_right(self.times_s, time_s), len(self.times_s) - 1)

    def _refined(self, pattern: Sequence[float], near_s: float, cell_s: float) -> float:
        """The moment near this one at which busy and idle parts differ most."""
        edges = list(accumulate(pattern, initial=0.0))

        def contrast(begin_s: float) -> float:
            powers = [
                (self.total_j(begin_s + end) - self.total_j(begin_s + start)) / (end - start)
                for start, end in zip(edges, edges[1:])
            ]
            return statistics.mean(powers[::2]) - statistics.mean(powers[1::2])

        first_s, last_s = max(near_s - cell_s, self.start_s), self.end_s - edges[-1]
        tries = [first_s + i * cell_s / 50 for i in range(101)]
        return max((each for each in tries if each <= last_s), key=contrast, default=near_s)


def _fits(
    totals_j: list[float], cell_s: float, pattern: Sequence[float]
) -> list[tuple[float, float]]:
    """Watts of the busy parts above the idle ones, and their correlation, from each cell on."""
    edges = [0, *accumulate(round(seconds / cell_s) for seconds in pattern)]
    busy, length = list(zip(edges[::2], edges[1::2])), edges[-1]
    share = sum(end - begin for begin, end in busy) / length
    powers_w = [(after - before) / cell_s for before, after in zip(totals_j, totals_j[1:])]
    squares = [0.0, *accumulate(power_w * power_w for power_w in powers_w)]
    fits = []
    for cell in range(len(totals_j) - length):
        busy_j = sum(totals_j[cell + end] - totals_j[cell + begin] for begin, end in busy)
        mean_w = (totals_j[cell + length] - totals_j[cell]) / (length * cell_s)
        busy_w = busy_j / (share * length * cell_s)
        above_w = (busy_w - mean_w) / (1 - share)
        square = (squares[cell + length] - squares[cell]) / length
        variance = square - mean_w * mean_w
        steady = not variance > 1e-12 * square  # what is left is rounding
        correlation = 0.0 if steady else above_w * math.sqrt(share * (1 - share) / variance)
        fits.append((above_w, correlation))
    return fits


def median_step(times_s: Sequence[float]) -> float:
    """From one time to the next, as a rule."""
    return statistics.median(after - before for before, after in zip(times_s, times_s[1:]))
