"""Isolating: which variant to measure next, as the paper does it (section 3.3).

Each kind starts at the bounds of its widths (2 points in one dimension, 4 corners in two); the next
point is where the posterior standard deviation is largest; a kind ends after `max_points`, or when
the largest standard deviation is at most `tolerance` times the mean of the profiled values. (The
paper says "variance smaller than 5 % of the profiled data"; joules² cannot be compared with joules,
so the standard deviation is what we compare.) LAST kinds come first, then FIRST, then HIDDEN.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from ampere.acquisition.strategy import Strategy
from ampere.core.layers import Role
from ampere.core.program.widths import Widths
from ampere.core.variants import MOST_LAYERS, Isolation, Plan, Variant, isolate
from ampere.estimators.base import usable
from ampere.estimators.paper import ORDER, KindProcess, fit_kind, isolated_points
from ampere.estimators.processes import gp
from ampere.records.measurement import Measurement

GRID = 24  # candidates along each of two widths


@dataclass
class _Progress:
    """What is known of one kind so far."""

    isolation: Isolation
    candidates: list[Widths]
    measured: set[Widths] = field(default_factory=set)
    asked: set[Widths] = field(default_factory=set)
    process: KindProcess | None = None
    ended: bool = False

    @property
    def starts(self) -> list[Widths]:
        """The bounds: both ends of one width, the four corners of two."""
        bounds = self.isolation.bounds
        corners = itertools.product(*(sorted(set(_snapped(self, name))) for name in sorted(bounds)))
        return [Widths(dict(zip(sorted(bounds), corner, strict=True))) for corner in corners]


class Isolator:
    """The ask and tell of the paper's method.

    Its state is a function of what it was told, so a journal told again resumes it.
    """

    by_calls = False

    def __init__(self, plan: Plan, strategy: Strategy | None = None) -> None:
        self.strategy = strategy or Strategy("paper")
        self._kinds = {
            isolation.kind.name: _Progress(isolation, _candidates(isolation))
            for isolation in plan.isolations
        }
        self._rows: list[Measurement] = []
        self.cut_short = False  # whether a kind was ended for lack of time

    def ask(self, n: int = 1, affordable: float = float("inf")) -> list[Variant]:
        """Up to n variants to measure next, of the kinds whose turn it is.

        `affordable` is how many more measurements there is time for; they are shared out so that
        every kind gets some. Fewer than n come when the others must be told first.
        """
        variants: list[Variant] = []
        open_kinds = self._open_kinds()
        while len(variants) < n:
            before = len(variants)
            for progress in open_kinds:
                if len(variants) == n:
                    break
                widths = self._next(progress, affordable)
                if widths is not None:
                    progress.asked.add(widths)
                    variants.append(isolate(progress.isolation, widths))
            if len(variants) == before:
                break
        return variants

    def tell(self, measurement: Measurement) -> None:
        """Learn from a measurement; one that failed is told too."""
        self._rows.append(measurement)
        progress = self._subject(measurement)
        if progress is None:
            return
        widths, *more = {
            layer.widths for layer in measurement.layers if layer.kind == progress.isolation.kind
        }
        if more:  # one kind at two widths tells of neither
            return
        progress.asked.discard(widths)
        progress.measured.add(widths)
        self._refit(progress)

    @property
    def should_stop(self) -> bool:
        """Whether every kind has ended."""
        return all(progress.ended for progress in self._kinds.values())

    @property
    def remaining(self) -> int:
        """How many more measurements it takes at most."""
        return sum(self._left(progress) for progress in self._kinds.values() if not progress.ended)

    @property
    def phase(self) -> Role | None:
        """Whose turn it is: LAST, FIRST, HIDDEN, or None at the end."""
        for role in ORDER:
            if any(not p.ended and p.isolation.kind.role is role for p in self._kinds.values()):
                return role
        return None

    @property
    def state(self) -> str:
        """Whose turn it is, as a word."""
        return self.phase.value if self.phase else ""

    def _open_kinds(self) -> list[_Progress]:
        phase = self.phase
        return [
            progress
            for progress in self._kinds.values()
            if not progress.ended and progress.isolation.kind.role is phase
        ]

    def _subject(self, measurement: Measurement) -> _Progress | None:
        """The kind that a measured variant isolates; None for rows that are no variants of ours."""
        if measurement.stage != "step" or len(measurement.layers) > MOST_LAYERS:
            return None
        roles = {layer.kind.role: layer for layer in measurement.layers}
        for role in reversed(ORDER):
            if role in roles:
                return self._kinds.get(roles[role].kind.name)
        return None

    def _left(self, progress: _Progress) -> int:
        return max(
            0, min(self.strategy.max_points, len(progress.candidates)) - len(progress.measured)
        )

    def _next(self, progress: _Progress, affordable: float) -> Widths | None:
        used = progress.measured | progress.asked
        starts = [widths for widths in progress.starts if widths not in used]
        if starts:
            return starts[0]
        cap = min(self._left(progress), self._share(progress, affordable))
        free = [widths for widths in progress.candidates if widths not in used]
        if not free or len(progress.asked) >= cap or progress.process is None:
            return None
        process = self._guide(progress.process)
        for widths in progress.asked:
            process = process.condition_on_location(progress.process.scale([_row(widths)])[0])
        (index,) = gp.pick_next(process, progress.process.scale([_row(w) for w in free]))
        return free[index]

    def _share(self, progress: _Progress, affordable: float) -> float:
        """What is left of this kind's part of all that can be measured, by its dimensions."""
        open_kinds = [p for p in self._kinds.values() if not p.ended]
        pool = affordable + sum(len(p.measured) for p in open_kinds)
        weight = sum(2.0 ** len(p.isolation.bounds) for p in open_kinds)
        return pool * 2.0 ** len(progress.isolation.bounds) / weight - len(progress.measured)

    def end_phase(self) -> None:
        """End the kinds whose turn it is, because there is no time for more of them."""
        for progress in self._open_kinds():
            progress.ended = True
            self.cut_short = True

    def _guide(self, process: KindProcess) -> gp.GaussianProcess:
        return process.time if self.strategy.guide == "time" and process.time else process.energy

    def _refit(self, progress: _Progress) -> None:
        """Fit a kind again, and see whether it has ended."""
        turn = ORDER.index(progress.isolation.kind.role)
        learnt_before = {  # what was learnt from this kind must not teach it
            name: other.process
            for name, other in self._kinds.items()
            if other.process is not None and ORDER.index(other.isolation.kind.role) < turn
        }
        points = isolated_points(progress.isolation.kind.name, usable(self._rows), learnt_before)
        if points:
            kind = progress.isolation.kind.name
            progress.process = fit_kind(kind, points, self.strategy.kernel)
        started = all(widths in progress.measured for widths in progress.starts)
        full = self._left(progress) == 0
        progress.ended = started and (full or (not progress.asked and self._is_sure(progress)))

    def _is_sure(self, progress: _Progress) -> bool:
        """Largest standard deviation at most `tolerance` × mean; never on the bounds alone."""
        process = progress.process
        if process is None or len(progress.measured) <= len(progress.starts):
            return False
        guide = self._guide(process)
        _, std = guide.predict(process.scale([_row(widths) for widths in progress.candidates]))
        by_time = guide is process.time
        values = [p.cost.time_s if by_time else p.cost.energy_j for p in process.points]
        mean = float(np.mean([value for value in values if value is not None]))
        return bool(std.max() <= self.strategy.effective_tolerance * abs(mean))


def _row(widths: Widths) -> list[int]:
    return [widths[name] for name in sorted(widths)]


def _snapped(progress: _Progress, name: str) -> tuple[int, int]:
    """The bounds of a width, moved inwards to its multiples."""
    low, high = progress.isolation.bounds[name]
    step = progress.isolation.steps[name]
    low, high = -(-low // step) * step, high // step * step
    return (low, high) if low <= high else (step, step)


def _candidates(isolation: Isolation) -> list[Widths]:
    """Every width in one dimension (at most some hundreds), an even grid in two."""
    progress = _Progress(isolation, [])
    axes = []
    names = sorted(isolation.bounds)
    limit = 512 if len(names) == 1 else GRID
    for name in names:
        low, high = _snapped(progress, name)
        step = isolation.steps[name]
        count = min(limit, (high - low) // step + 1)
        axes.append(sorted({step * round(v / step) for v in np.linspace(low, high, count)}))
    return [Widths(dict(zip(names, point, strict=True))) for point in itertools.product(*axes)]
