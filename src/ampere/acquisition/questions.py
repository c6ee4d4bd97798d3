"""Questions: what a profile shall answer, and how much each answer counts.

A model is asked about as a whole step, at its depth. A line is asked about as the layer alone: what
depth costs is no part of it, nor is what a step costs whatever its layers are; but for the last
layer. Every network has one of these and one step, so that no network tells the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer, Role
from ampere.estimators.encoding.contexts import depth_context
from ampere.estimators.encoding.encoder import STEP, distinct


@dataclass(frozen=True)
class Question:
    """What do these layers cost together, in a network as deep as this?"""

    layers: tuple[Layer, ...]
    depth: float = 0.0

    @classmethod
    def of_step(cls, layers: Sequence[Layer]) -> Question:
        """About a network as it is trained."""
        return cls((*layers, STEP), depth_context(layers))

    @classmethod
    def of_line(cls, layer: Layer) -> Question:
        """About one layer, however often a network has it."""
        once = replace(layer, count=1)
        return cls((once, STEP) if layer.kind.role is Role.LAST else (once,))


@dataclass(frozen=True, eq=False)
class Questions:
    """Models, all of the same weight, and lines of models: together they weigh as much again.

    A line weighs what it has of its model's cost: what matters is where the joules are.
    """

    models: tuple[Question, ...]
    lines: tuple[Question, ...]
    counts: Array  # how many of each line's layer a divided model has

    @classmethod
    def about(
        cls, models: Sequence[Sequence[Layer]], divided: Sequence[Sequence[Layer]] = ()
    ) -> Questions:
        """About some models as wholes, and about the lines of those that are divided."""
        layers, counts = distinct(divided)
        lines = map(Question.of_line, layers)
        return cls(tuple(map(Question.of_step, models)), tuple(lines), counts)

    @property
    def all(self) -> tuple[Question, ...]:
        """Models first, then lines."""
        return (*self.models, *self.lines)

    def weights(self, answers: Array) -> Array:
        """How much each question counts, given what each costs; of models and of lines 1 in all."""
        many = len(self.models)
        parts = self.counts * answers[many:]
        shares = parts / parts.sum(1, keepdims=True)
        lines = shares.sum(0) / max(len(shares), 1)
        return np.concatenate([np.full(many, 1 / many), lines])
