"""Limits: what a training job may take of energy, time and memory, and whether it stays inside.

    limits = JobLimits.parse(energy="5 kJ", time="10 min", memory="2 GiB", confidence=0.9)
    limits.judge(estimate, memory_bytes).refusal     # None, or why the job should not run

What integrations share; it needs none of the libraries that they are for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from ampere.core import units
from ampere.core.boundary.durations import TIME_FORMS, parse_time
from ampere.core.budget import Budget, parse_budget
from ampere.errors import DataError, NotCovered
from ampere.estimators.intervals import bound, probability_within
from ampere.profiles.estimate import Estimate

ENERGY_FORMS = "write energy of a job as 800 J, 5 kJ or 5 Wh, or of a step as 2 J/step"
MEMORY_FORMS = "write it as 512 MB, 2 GiB or a number of bytes"
BYTES = {
    "b": 1.0,
    **{f"{prefix}b": 1000.0**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}ib": 1024.0**power for power, prefix in enumerate("kmgt", start=1)},
}

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_MEMORY = re.compile(rf"({_NUMBER})\s*([kmgt]?i?b)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Need:
    """What a job needs of one thing that is limited.

    `bound` is what it stays under with the asked confidence. Memory has no interval: there the
    bound is what is expected.
    """

    name: str
    expected: float
    bound: float
    limit: float
    probability: float
    text: str  # what is expected, in words
    limit_text: str

    @property
    def excess(self) -> float:
        """The logarithm of the bound over the limit: above 0 it is refused."""
        return math.log(self.bound / self.limit)


@dataclass(frozen=True)
class Verdict:
    """An estimate against limits."""

    estimate: Estimate
    needs: tuple[Need, ...]
    confidence: float
    memory_bytes: float | None = None

    @property
    def refusal(self) -> str | None:
        """Why the job should not run, in one line; None if it may."""
        over = [need for need in self.needs if need.excess > 0]
        return "; ".join(map(self._describe, over)) or None

    @property
    def probability(self) -> float:
        """That the job stays inside: of the limit that is most in danger, each by itself."""
        return min(need.probability for need in self.needs)

    def _describe(self, need: Need) -> str:
        said = f"{need.name} of the job: {need.text}, the limit is {need.limit_text}"
        if need.name == "memory":
            return said
        inside = units.percent(need.probability)
        return f"{said}: inside with {inside}, {units.percent(self.confidence)} are asked for"


@dataclass(frozen=True)
class JobLimits:
    """What a job may take, and with which probability it has to stay inside.

    What is None is not limited. Energy and time are each held with this confidence by themselves:
    both come from the same rows, and are mostly wrong together.
    """

    energy: Budget | None = None
    time_s: float | None = None
    memory_bytes: float | None = None
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise DataError(
                f"confidence is {self.confidence}: use a probability above 0 and below 1, e.g. 0.9"
            )
        if self.energy is None and self.time_s is None and self.memory_bytes is None:
            raise DataError("a budget needs a limit: give energy, time or memory")
        if self.energy is not None and not self.energy.is_energy:
            of = "a share of a model that nobody named" if self.energy.is_share else "no energy"
            raise DataError(f"a budget of {self.energy} is {of}: {ENERGY_FORMS}")

    @classmethod
    def parse(
        cls,
        energy: str | float | None = None,
        time: str | float | None = None,
        memory: str | float | None = None,
        confidence: float = 0.9,
    ) -> JobLimits:
        """Read limits as a user writes them; plain numbers are joules, seconds and bytes."""
        return cls(
            energy=None if energy is None else _energy(energy),
            time_s=None if time is None else _amount(time, parse_time, "time", TIME_FORMS),
            memory_bytes=None
            if memory is None
            else _amount(memory, parse_memory, "memory", MEMORY_FORMS),
            confidence=confidence,
        )

    def judge(self, estimate: Estimate, memory_bytes: float | None = None) -> Verdict:
        """Compare a job with the limits.

        Args:
            estimate: Of the whole job.
            memory_bytes: What a step needs; asked for only where memory is limited.

        Raises:
            NotCovered: The profile does not know all layers, or no seconds where time is limited.
        """
        if estimate.uncovered:
            names = ", ".join(dict.fromkeys(layer.name for layer in estimate.uncovered))
            raise NotCovered(
                f"the profile does not cover {names}, so no budget can be held: profile a model"
                " that has such layers first (`ampere profile`)"
            )
        needs = []
        if self.energy is not None:
            needs.append(self._energy_need(self.energy, estimate))
        if self.time_s is not None:
            needs.append(self._time_need(self.time_s, estimate))
        if self.memory_bytes is not None and memory_bytes is not None:
            needs.append(_memory_need(self.memory_bytes, memory_bytes))
        return Verdict(estimate, tuple(needs), self.confidence, memory_bytes)

    def _energy_need(self, energy: Budget, estimate: Estimate) -> Need:
        limit_j = estimate.steps * energy.per_step(math.nan, estimate.steps)
        mean, std, method = estimate.energy_j, estimate.energy_j_std, estimate.method
        return Need(
            name="energy",
            expected=mean,
            bound=bound(mean, std, self.confidence, method),
            limit=limit_j,
            probability=probability_within(limit_j, mean, std, method),
            text=units.joules(mean),
            limit_text=str(energy),
        )

    def _time_need(self, limit_s: float, estimate: Estimate) -> Need:
        mean, std, method = estimate.time_s, estimate.time_s_std, estimate.method
        if mean is None or std is None:
            raise NotCovered(
                "the profile tells no seconds, so no time can be promised: leave the time out of"
                " the budget, or profile with seconds"
            )
        return Need(
            name="time",
            expected=mean,
            bound=bound(mean, std, self.confidence, method),
            limit=limit_s,
            probability=probability_within(limit_s, mean, std, method),
            text=units.seconds(mean),
            limit_text=units.seconds(limit_s),
        )


def _memory_need(limit: float, needed: float) -> Need:
    return Need(
        name="memory",
        expected=needed,
        bound=needed,
        limit=limit,
        probability=float(needed <= limit),
        text=units.memory(needed),
        limit_text=units.memory(limit),
    )


def parse_memory(text: str) -> float:
    """Bytes of `512 MB` or `2 GiB`."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None or match[2].lower() not in BYTES:
        raise DataError(f"{text!r} is no amount of memory: {MEMORY_FORMS}")
    return float(match[1]) * BYTES[match[2].lower()]


def _energy(energy: str | float) -> Budget:
    if not isinstance(energy, str):
        return Budget(_amount(energy, parse_time, "energy", ENERGY_FORMS), "J")
    try:
        return parse_budget(energy)
    except DataError:  # which speaks of shares, too
        raise DataError(f"{energy!r} is no budget: {ENERGY_FORMS}") from None


def _amount(value: str | float, parse: Callable[[str], float], name: str, forms: str) -> float:
    amount = parse(value) if isinstance(value, str) else value
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise DataError(f"a limit of {name} is text or a number, not {amount!r}: {forms}")
    if not 0 < amount < math.inf:
        raise DataError(f"a limit of {name} of {value} leaves room for nothing: {forms}")
    return float(amount)
