"""Outlook: what a job will take, said before its first step, and whether it may begin.

P(inside) ≥ confidence         it may
in between                     it may, with a warning
P(inside) ≤ 1 − confidence     it is refused, with what would fit
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from ampere.core import units
from ampere.core.types import Json
from ampere.errors import NotCovered, Refused
from ampere.estimators.base import Cost
from ampere.gates.forecast import Forecast, Forecaster, Prior
from ampere.gates.interludes import Validation
from ampere.gates.terms import Terms
from ampere.profiles.estimate import Estimate
from ampere.profiles.jobs.whole_job import LOADING, TRAINING, VALIDATION

TAIL = 0.05
MOST_SPAN = 30.0  # from the lower to the upper end of an interval that says anything
BLIND = "on a quiet machine, or `ampere estimate --after-steps`"


class Decision(str, Enum):
    """Whether a job may begin."""

    ALLOW = "allow"
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Suggestion:
    """A change with which the job would fit."""

    change: str  # steps, batch, widths, device
    text: str
    energy_j: float | None = None

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {"change": self.change, "text": self.text, "energy_j": self.energy_j}


@dataclass(frozen=True)
class Outlook:
    """An estimate of a whole job, with what it leaves out as usual, against a budget."""

    estimate: Estimate
    forecast: Forecast
    terms: Terms
    suggestions: tuple[Suggestion, ...] = ()

    @property
    def probability(self) -> float:
        """That the job stays inside its budget; 1 without one."""
        if self.terms.budget_j is None:
            return 1.0
        return self.forecast.probability_within(self.terms.budget_j)

    @property
    def decision(self) -> Decision:
        """Whether it may begin."""
        if self.probability >= self.terms.confidence:
            return Decision.ALLOW
        refused = self.probability <= 1 - self.terms.confidence
        return Decision.REFUSE if refused else Decision.WARN

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % interval of the job's joules, loading and validation as usual among them."""
        return self.forecast.quantile(TAIL), self.forecast.quantile(1 - TAIL)

    @property
    def sentence(self) -> str:
        """What will be taken, and how that stands to the budget."""
        low, high = map(units.joules, self.interval)
        said = (
            f"{units.plural(self.estimate.steps, 'step')} will take about"
            f" {units.joules(self.forecast.energy_j)} ({low} to {high}), {self._around}"
        )
        if self.is_blind:
            said = f"{said}: the profile knows too little to tell, measure more of it ({BLIND})"
        if self.terms.budget_j is None:
            return said
        inside = units.percent(self.probability)
        return f"{said}; inside {self.terms.budget_text} with a probability of {inside}"

    @property
    def is_blind(self) -> bool:
        """Whether the interval is so wide that it says nothing."""
        low, high = self.interval
        return high > MOST_SPAN * low

    @property
    def _around(self) -> str:
        """What is in it beside the steps, and whether anything was said of that."""
        parts = {LOADING: "loading", VALIDATION: "validation"}
        told = {part.name for part in self.estimate.parts}
        words = {
            "as told": [word for name, word in parts.items() if name in told],
            "as usual": [word for name, word in parts.items() if name not in told],
        }
        said = [f"{' and '.join(names)} {how}" for how, names in words.items() if names]
        return f"with {' and '.join(said)}"

    def enforce(self, only_warn: bool, note: Callable[[str], None]) -> None:
        """Say what it will take, and let the job begin.

        Raises:
            Refused: It will not fit.
        """
        fits = "; ".join(suggestion.text for suggestion in self.suggestions)
        text = f"{self.sentence}{f'. What would fit: {fits}' if fits else ''}"
        if self.decision is Decision.REFUSE and not only_warn:
            raise Refused(f"the job is refused: {text}")
        note(text)
        if warnings := len(self.estimate.warnings):
            note(f"the estimate has {units.plural(warnings, 'warning')}: print(gate.outlook)")

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere gate --json` prints it."""
        return {
            "decision": self.decision.value,
            "probability": self.probability,
            "energy_j": self.forecast.energy_j,
            "energy_j_interval": list(self.interval),
            "budget": self.terms.budget,
            "budget_j": self.terms.budget_j,
            "confidence": self.terms.confidence,
            "suggestions": [each.to_json() for each in self.suggestions],
            "estimate": self.estimate.to_json(),
        }

    def __repr__(self) -> str:
        lines = [f"{self.decision.value}: {self.sentence}"]
        lines += [f"  would fit: {each.text}" for each in self.suggestions]
        origin = self.estimate.provenance.origin if self.estimate.provenance else "unknown"
        lines.append(f"  device {self.estimate.device}; joules are {origin}")
        lines += [f"  warning: {text}" for text in self.estimate.warnings]
        return "\n".join(lines)


def prior_of(estimate: Estimate) -> Prior:
    """What an estimate says of a step, for whoever watches the steps.

    Raises:
        NotCovered: It leaves layers out, so nothing can be promised.
    """
    if estimate.uncovered:
        names = ", ".join(dict.fromkeys(layer.name for layer in estimate.uncovered))
        raise NotCovered(
            f"the profile does not cover {names}, so no budget can be judged: profile a model that"
            " has such layers (`ampere profile`), or leave the profile out: then the first steps"
            " tell"
        )
    steps, parts = estimate.steps, {part.name: part.cost for part in estimate.parts}
    if not parts:
        return Prior(
            energy_j=estimate.energy_j / steps,
            std_j=estimate.energy_j_std / steps,
            time_s=None if estimate.time_s is None else estimate.time_s / steps,
        )
    batches, validated = estimate.job["batches"], estimate.job["validation_batches"]
    training, loading = parts[TRAINING], parts.get(LOADING, Cost(0.0, 0.0, 0.0, 0.0))
    here = loading.times(batches / (batches + validated))  # the rest is validation's
    step_j = (training.energy_j + here.energy_j) / steps
    time_s = None
    if training.time_s is not None and here.time_s is not None:
        time_s = (training.time_s + here.time_s) / steps
    return Prior(
        energy_j=step_j,
        std_j=math.hypot(training.energy_j_std, here.energy_j_std) / steps,
        time_s=time_s,
        loading=LOADING in parts,
        validation=_validation(estimate, parts, step_j) if VALIDATION in parts else None,
    )


def _validation(estimate: Estimate, parts: Mapping[str, Cost], step_j: float) -> Validation:
    """What one validation is worth in steps: an error of the step itself is in both alike."""
    count, validated = estimate.job["validations"], estimate.job["validation_batches"]
    there_j = 0.0
    if LOADING in parts:
        there_j = parts[LOADING].energy_j * validated / (estimate.job["batches"] + validated)
    passes, training = parts[VALIDATION], parts[TRAINING]
    own = passes.energy_j_std / passes.energy_j
    shared = training.energy_j_std / training.energy_j
    return Validation(
        every=max(1, estimate.steps // count),
        worth=(passes.energy_j + there_j) / count / step_j,
        error=math.sqrt(max(0.0, own**2 - shared**2)),
    )


def look_ahead(
    estimate: Estimate, terms: Terms, suggestions: tuple[Suggestion, ...] = ()
) -> Outlook:
    """The outlook of a job that was estimated."""
    forecast = Forecaster(prior_of(estimate)).rest(estimate.steps, 0)
    return Outlook(estimate, forecast, terms, suggestions)
