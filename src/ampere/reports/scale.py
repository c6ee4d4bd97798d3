"""Scale: where values stand on an axis, and the round ones among them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

LARGEST = sys.float_info.max
DECADES = 1.3  # a range of 20 and more is drawn on a logarithmic scale


@dataclass(frozen=True)
class Scale:
    """Where values stand on an axis: the low one at `start`, the high one at `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(
        cls, values: Iterable[float], start: float, end: float, *, zero: bool = False
    ) -> Scale:
        """A scale for these values, from 0 on if that is wanted, logarithmic if they need it."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        if zero:
            return cls(min(low, 0.0), max(high, 0.0), start, end)
        log = low > 0 and math.log10(high) - math.log10(low) > DECADES
        return cls(low, high, start, end, log)

    def at(self, value: float) -> float:
        """The place of a value; what lies beyond an end stands at that end."""
        low, high, level = map(self._level, (self.low, self.high, value))
        share = (level - low) / (high - low) if high > low else 0.5
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def wider(self, share: float = 0.04) -> Scale:
        """The same with some room at both ends."""
        if self.log:
            factor = 10 ** (share * (math.log10(self.high) - math.log10(self.low)))
            low = self.low / factor or self.low  # the smallest numbers have no room below
            return replace(self, low=low, high=min(self.high * factor, LARGEST))
        room = share * self.high - share * self.low
        low, high = max(self.low - room, -LARGEST), min(self.high + room, LARGEST)
        return replace(self, low=low, high=high)

    def linear(self) -> Scale:
        """The same without logarithms."""
        return replace(self, log=False)

    def ticks(self, most: int = 5) -> list[float]:
        """A few round values between both ends, or the ends themselves."""
        ticks = self._decades(most) if self.log else self._steps(most)
        return ticks if len(ticks) > 1 else sorted({self.low, self.high})

    def _level(self, value: float) -> float:
        """What places are proportional to."""
        if self.log:
            return math.log10(value) if value > 0 else -math.inf
        return value / (max(abs(self.low), abs(self.high)) or 1.0)  # so that nothing overflows

    def _steps(self, most: int) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        rough = self.high / most - self.low / most
        power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 0.0
        if not power:
            return []
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
        first, last = self.low / step, self.high / step
        if not math.isfinite(step) or max(abs(first), abs(last)) > 1e9:  # too close to tell apart
            return []
        numbers = range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)
        return [number * step for number in numbers]

    def _decades(self, most: int) -> list[float]:
        """Powers of ten; over few of them also twice and five times each."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        few = math.log10(self.high) - math.log10(self.low) < 2.3
        rounds = [
            size * 10.0**power
            for power in range(max(first, -300), min(last, 300) + 1)
            for size in ((1, 2, 5) if few else (1,))
        ]
        inside = [value for value in rounds if self.low <= value <= self.high]
        return inside[:: -(-len(inside) // (most + 2))] if inside else []
