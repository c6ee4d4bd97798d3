"""Suggestions: what would fit into a budget where a job does not.

A shorter job, smaller batches, narrower layers, another device: each is estimated as the job itself
was, and named only if it fits with the asked confidence. What cannot be estimated is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ampere.core import units
from ampere.core.training import Training
from ampere.errors import AmpereError, DataError
from ampere.gates.outlook import Decision, Outlook, Suggestion, look_ahead, prior_of
from ampere.profiles.collection.comparison import compare_devices
from ampere.profiles.estimate import Estimate
from ampere.profiles.jobs.job import Job
from ampere.profiles.library import Library
from ampere.profiles.profile import Profile
from ampere.pruning.search import Search, WidthSearch, make_space

if TYPE_CHECKING:
    from ampere.core.boundary.example_inputs import Input
    from ampere.core.layers import Layer
    from ampere.frameworks.readers import Model

SLACK = 0.999  # so that rounding does not keep a job from fitting
HALVINGS = 4  # of a batch
MOST_DEVICES = 3


@dataclass(frozen=True)
class Asked:
    """A job that somebody wants to run: which model, how long, on which profiled device."""

    model: Model | Sequence[Layer]
    input: Input | None
    training: Training
    profile: Profile
    job: Job
    library: Library | None = None

    def __post_init__(self) -> None:
        if self.job.ranks > 1:
            raise DataError("a gate watches over one device: leave ranks out, each has its own")

    @property
    def steps(self) -> int:
        """Updates of the weights in the whole job."""
        return self.job.count(self.training.batch_size).steps

    def estimate(self) -> Estimate:
        """What it takes."""
        return self.profile.estimate(self.model, self.input, training=self.training, job=self.job)


def suggest(asked: Asked, outlook: Outlook) -> tuple[Suggestion, ...]:
    """What would fit; nothing for a job that does."""
    if outlook.decision is Decision.ALLOW or outlook.is_blind:
        return ()
    found: list[Suggestion] = []
    for way in _WAYS:
        try:
            found += way(asked, outlook)
        except AmpereError:  # not covered, nothing to cut, a survey without tables
            continue
    return tuple(found)


def _shorter(asked: Asked, outlook: Outlook) -> list[Suggestion]:
    whole = asked.job
    length, unit = whole.length, "epoch" if whole.epochs else "step"
    fewer, other = length, outlook
    while other.decision is not Decision.ALLOW:  # a shorter job is a little less sure in its share
        bound_j = other.forecast.quantile(outlook.terms.confidence)
        fewer = int(SLACK * fewer * (outlook.terms.budget_j or 0.0) / bound_j)
        if fewer < 1:
            return []
        other = look_ahead(replace(asked, job=whole.shortened(fewer)).estimate(), outlook.terms)
    said = f"{units.plural(fewer, unit)} instead of {units.number(length)}"
    return [Suggestion(f"{unit}s", said, other.forecast.energy_j)]


def _smaller_batch(asked: Asked, outlook: Outlook) -> list[Suggestion]:
    if isinstance(asked.model, Sequence) and not isinstance(asked.model, str):
        return []  # layers have their batch in their kinds
    batch, length = asked.training.batch_size, "epochs" if asked.job.epochs else "steps"
    for size in (batch >> halving for halving in range(1, HALVINGS + 1)):
        if size < 2:
            break
        smaller = replace(asked, training=replace(asked.training, batch_size=size))
        other = look_ahead(smaller.estimate(), outlook.terms)
        if any(line.borrowed for line in other.estimate.lines):
            break  # nothing of such a batch was ever measured
        if other.decision is Decision.ALLOW:
            said = f"a batch of {size} instead of {batch} at as many {length}"
            return [Suggestion("batch", said, other.forecast.energy_j)]
    return []


def _narrower(asked: Asked, outlook: Outlook) -> list[Suggestion]:
    from ampere.pytorch.models import make_slimmer

    if isinstance(asked.model, Sequence) and not isinstance(asked.model, str):
        return []
    terms, step_j = outlook.terms, prior_of(outlook.estimate).energy_j
    usual = outlook.forecast.energy_j / step_j  # steps, with what is around them in proportion
    search = Search(confidence=max(0.5, terms.confidence))
    slimmer = make_slimmer(asked.model, asked.input, asked.training)
    widths = WidthSearch(
        space=make_space(slimmer, asked.profile, search),
        settings=search,
        whole_j=step_j,
        count=1,
        seed=0,
    )
    (found, *_) = widths.find((terms.budget_j or 0.0) / usual)
    cut = [f"{name} {size} of {widths.whole[name]}" for name, size in found.items()]
    return [Suggestion("widths", f"narrower layers ({', '.join(cut)}; `ampere prune`)")]


def _other_device(asked: Asked, outlook: Outlook) -> list[Suggestion]:
    if asked.library is None:
        return []
    comparison = compare_devices(asked.library, asked.model, asked.input, training=asked.training)
    found = []
    for standing in comparison.standings:
        there = replace(asked, model=standing.layers, profile=standing.card.entry.profile)
        other = look_ahead(there.estimate(), outlook.terms)
        if other.decision is Decision.ALLOW and not standing.borrowed:
            said = f"{standing.card.name} ({units.joules(other.forecast.energy_j)})"
            found.append(Suggestion("device", said, other.forecast.energy_j))
    return found[:MOST_DEVICES]


_WAYS: tuple[Callable[[Asked, Outlook], list[Suggestion]], ...] = (
    _shorter,
    _smaller_batch,
    _narrower,
    _other_device,
)
