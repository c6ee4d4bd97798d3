"""Answers: what a method says of networks that it is asked for, after those it was told of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ampere.core.layers import Layer
from ampere.errors import NotCovered
from ampere.estimators.base import Fit
from ampere.estimators.intervals import interval
from ampere.records.measurement import Measurement


class Answer(NamedTuple):
    """Joules of a network, and their 90 % interval."""

    energy_j: float
    low_j: float
    high_j: float


@dataclass(frozen=True)
class Learned:
    """What a method made of the rows that it was told, without those that it left out."""

    answers: Callable[[Sequence[Measurement]], list[Answer]]
    left_out: int = 0


Method = Callable[[Sequence[Measurement]], Learned]


def by_layers(fit: Callable[[Sequence[Measurement]], Fit]) -> Method:
    """A method of ampere's, as one that answers."""

    def learn(known: Sequence[Measurement]) -> Learned:
        fitted = fit(known)

        def answers(asked: Sequence[Measurement]) -> list[Answer]:
            return [answer_of(fitted, row.layers) for row in asked]

        return Learned(answers, len(getattr(fitted, "rejected", ())))

    return learn


def answer_of(fit: Fit, layers: Sequence[Layer]) -> Answer:
    """What a fit says of a network.

    Raises:
        NotCovered: It leaves layers out.
    """
    prediction = fit.predict(layers)
    if prediction.uncovered or not math.isfinite(prediction.total.energy_j):
        raise NotCovered("some of the layers that are asked about are not covered")
    energy_j, std = prediction.total.energy_j, prediction.total.energy_j_std
    if energy_j <= 0:  # processes on joules say so of small layers; ampere itself refuses that
        return Answer(energy_j, 0.0, 0.0)
    return Answer(energy_j, *interval(energy_j, std))
