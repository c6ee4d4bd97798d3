"""Suggestions: what would fit into a budget where a job does not.

Fewer steps, smaller batches, narrower layers, another device: each is estimated as the job itself
was, and named only if it fits with the asked confidence. What cannot be estimated is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ampere.core import units
from ampere.core.training import Training
from ampere.errors import AmpereError
from ampere.gates.outlook import Decision, Outlook, Suggestion, look_ahead
from ampere.profiles.collection.comparison import compare_devices
from ampere.profiles.estimate import Estimate
from ampere.profiles.library import Library
from ampere.profiles.profile import Profile
from ampere.pruning.search import Search, WidthSearch, make_space

if TYPE_CHECKING:
    from torch import nn

    from ampere.core.layers import Layer
    from ampere.pytorch.models import Input

SLACK = 0.999  # so that rounding does not keep a job from fitting
HALVINGS = 4  # of a batch
MOST_DEVICES = 3


@dataclass(frozen=True)
class Job:
    """A model that is to be trained on a profiled device."""

    model: nn.Module | str | Sequence[Layer]
    input: Input | None
    training: Training
    profile: Profile
    library: Library | None = None

    def estimate(self, steps: int, training: Training | None = None) -> Estimate:
        """What so many steps take."""
        return self.profile.estimate(
            self.model, self.input, training=training or self.training, steps=steps
        )


def suggest(job: Job, outlook: Outlook) -> tuple[Suggestion, ...]:
    """What would fit; nothing for a job that does."""
    if outlook.decision is Decision.ALLOW:
        return ()
    found: list[Suggestion] = []
    for way in _WAYS:
        try:
            found += way(job, outlook)
        except AmpereError:  # not covered, nothing to cut, a survey without tables
            continue
    return tuple(found)


def _fewer_steps(job: Job, outlook: Outlook) -> list[Suggestion]:
    budget_j, steps = outlook.terms.budget_j or 0.0, outlook.estimate.steps
    fewer, other = steps, outlook
    while other.decision is not Decision.ALLOW:  # a shorter job is a little less sure in its share
        bound_j = other.forecast.quantile(outlook.terms.confidence)
        fewer = int(SLACK * fewer * budget_j / bound_j)
        if fewer < 1:
            return []
        other = look_ahead(outlook.estimate.for_steps(fewer), outlook.terms)
    said = f"{units.plural(fewer, 'step')} instead of {units.number(steps)}"
    return [Suggestion("steps", said, other.forecast.energy_j)]


def _smaller_batch(job: Job, outlook: Outlook) -> list[Suggestion]:
    if isinstance(job.model, Sequence) and not isinstance(job.model, str):
        return []  # layers have their batch in their kinds
    batch = job.training.batch_size
    for size in (batch >> halving for halving in range(1, HALVINGS + 1)):
        if size < 2:
            break
        training = replace(job.training, batch_size=size)
        other = look_ahead(job.estimate(outlook.estimate.steps, training), outlook.terms)
        if any(line.borrowed for line in other.estimate.lines):
            break  # nothing of such a batch was ever measured
        if other.decision is Decision.ALLOW:
            said = f"a batch of {size} instead of {batch} at as many steps"
            return [Suggestion("batch", said, other.forecast.energy_j)]
    return []


def _narrower(job: Job, outlook: Outlook) -> list[Suggestion]:
    from ampere.pytorch.models import make_slimmer

    if isinstance(job.model, Sequence) and not isinstance(job.model, str):
        return []
    estimate, terms = outlook.estimate, outlook.terms
    usual = outlook.forecast.energy_j / estimate.energy_j  # loading and validation stay
    limit_j = (terms.budget_j or 0.0) / estimate.steps / usual
    search = Search(confidence=max(0.5, terms.confidence))
    slimmer = make_slimmer(job.model, job.input, job.training)
    widths = WidthSearch(
        space=make_space(slimmer, job.profile, search),
        settings=search,
        whole_j=estimate.energy_j / estimate.steps,
        count=1,
        seed=0,
    )
    (found, *_) = widths.find(limit_j)
    cut = [f"{name} {size} of {widths.whole[name]}" for name, size in found.items()]
    return [Suggestion("widths", f"narrower layers ({', '.join(cut)}; `ampere prune`)")]


def _other_device(job: Job, outlook: Outlook) -> list[Suggestion]:
    if job.library is None:
        return []
    steps = outlook.estimate.steps
    comparison = compare_devices(
        job.library, job.model, job.input, training=job.training, steps=steps
    )
    found = []
    for standing in comparison.standings:
        other = look_ahead(standing.estimate, outlook.terms)
        if other.decision is Decision.ALLOW and not standing.borrowed:
            said = f"{standing.card.name} ({units.joules(other.forecast.energy_j)})"
            found.append(Suggestion("device", said, other.forecast.energy_j))
    return found[:MOST_DEVICES]


_WAYS: tuple[Callable[[Job, Outlook], list[Suggestion]], ...] = (
    _fewer_steps,
    _smaller_batch,
    _narrower,
    _other_device,
)
