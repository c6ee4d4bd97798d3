"""Rounds: which clients of a federation train next, and how many steps each.

    who may      what a round takes with 90 % fits into what is left above the reserve, whole or
                 as fewer steps; a client without a profile only if it is plugged in
    who goes     those that have waited too long, the longest first; then by joules per sample
    who rests    whoever took part in more than its share of the rounds

So quotes decide who goes more often, never who goes at all: a client that claims to be cheap takes
the place of others for `patience` rounds at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from ampere.core import units
from ampere.errors import DataError
from ampere.fleet.federation.quotes import Quote

SURPRISING = 3.0  # a loss counts as at most so many times the median of all


@dataclass(frozen=True)
class Terms:
    """How clients are chosen.

    Args:
        clients: That train in a round, as far as so many can.
        least_share: Of a whole round's steps: fewer are not worth a client's while.
        patience: Rounds that a client waits at most before it is preferred to cheaper ones; if
            nothing is said, twice as many as it takes to have all of them in turns.
        most_share: Of the rounds since a client came, in which it takes part at most.
        round_s: Seconds that a round may take.
        utility: How much it counts that a client's samples are learned badly still, as Oort has it:
            joules per sample are divided by its loss to this power; 0 is not at all.
    """

    clients: int
    least_share: float = 0.25
    patience: int | None = None
    most_share: float = 1.0
    round_s: float | None = None
    utility: float = 0.0

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise DataError(f"{self.clients} clients train nothing: use 1 or more")
        for name in ("least_share", "most_share"):
            if not 0 < getattr(self, name) <= 1:
                raise DataError(f"{name} is a share above 0 and at most 1")
        if self.patience is not None and self.patience < 1:
            raise DataError("patience is 1 round or more")
        if self.round_s is not None and not 0 < self.round_s < math.inf:
            raise DataError("a round takes seconds above 0")
        if not 0 <= self.utility < math.inf:
            raise DataError("utility is 0 or more")


@dataclass(frozen=True)
class Candidate:
    """A client that could train now.

    Args:
        name: Its number in the federation.
        quote: What it said last.
        usable_j: What it may spend, as far as is known: its rounds since then are taken off.
        waited: Rounds since it took part, or came.
        taken: Rounds in which it took part.
        known: Rounds since it came, this one included.
    """

    name: int
    quote: Quote
    usable_j: float
    waited: int = 0
    taken: int = 0
    known: int = 1


@dataclass(frozen=True)
class Invitation:
    """A client that shall train, for so many steps, and what these take."""

    name: int
    steps: int
    energy_j: float | None
    energy_j_bound: float | None
    whole: bool = True


@dataclass(frozen=True)
class Choice:
    """Who trains in a round, and why those who cannot do not."""

    invitations: tuple[Invitation, ...]
    refusals: Mapping[int, str] = field(default_factory=dict)


def choose(candidates: Sequence[Candidate], terms: Terms) -> Choice:
    """The clients of the next round; the same candidates in another order make the same choice."""
    refusals: dict[int, str] = {}
    able: list[tuple[Candidate, int]] = []
    for candidate in sorted(candidates, key=lambda each: each.name):
        steps = _steps(candidate, terms)
        if steps:
            able.append((candidate, steps))
        else:
            refusals[candidate.name] = _why(candidate, terms)
    ready = [(each, steps) for each, steps in able if _may_again(each, terms)]
    patience = terms.patience or 2 * -(-len(able) // terms.clients)
    usual_loss = median([each.quote.loss for each, _ in ready if each.quote.loss] or [1.0])

    def rank(each: tuple[Candidate, int]) -> tuple[float, ...]:
        return _rank(each[0], each[1], patience, usual_loss, terms.utility)

    ranked = sorted(ready, key=rank)
    invitations = [_invite(*each) for each in ranked[: terms.clients]]
    return Choice(tuple(invitations), refusals)


def _steps(candidate: Candidate, terms: Terms) -> int:
    """As many as fit, or none if these are too few."""
    steps = candidate.quote.steps_within(candidate.usable_j, terms.round_s)
    return steps if steps >= terms.least_share * candidate.quote.steps else 0


def _may_again(candidate: Candidate, terms: Terms) -> bool:
    return candidate.taken + 1 <= math.ceil(terms.most_share * candidate.known)


def _rank(
    candidate: Candidate, steps: int, patience: int, usual_loss: float, utility: float
) -> tuple[float, ...]:
    """Less comes first."""
    if candidate.waited >= patience:
        return (0.0, -candidate.waited, 0.0, candidate.name)
    quote = candidate.quote
    energy_j = quote.energy_j_of(steps)
    if energy_j is None:
        return (2.0, 0.0, -candidate.waited, candidate.name)
    per_sample_j = energy_j / (quote.samples * steps / quote.steps)
    # Who tells no loss may have the most to learn: it counts as the largest that is believed.
    loss = SURPRISING if quote.loss is None else min(SURPRISING, quote.loss / usual_loss)
    per_utility_j = per_sample_j / max(loss, 1 / SURPRISING) ** utility
    return (1.0, per_utility_j, -candidate.waited, candidate.name)


def _invite(candidate: Candidate, steps: int) -> Invitation:
    quote = candidate.quote
    energy_j, bound_j = quote.energy_j_of(steps), quote.energy_j_bound_of(steps)
    return Invitation(candidate.name, steps, energy_j, bound_j, whole=steps == quote.steps)


def _why(candidate: Candidate, terms: Terms) -> str:
    """What stands against a client, in a few words."""
    quote, bound_j = candidate.quote, candidate.quote.energy_j_bound
    if bound_j is None and candidate.usable_j < math.inf:
        return "it has no profile and runs on its battery: nobody knows whether a round fits"
    if bound_j is not None and quote.steps_within(candidate.usable_j) < max(
        1, terms.least_share * quote.steps
    ):
        left = units.joules(max(0.0, candidate.usable_j))
        return f"a round may take {units.joules(bound_j)}, {left} are left above its reserve"
    return f"a round may take {units.seconds(quote.time_s_bound or math.nan)}"
