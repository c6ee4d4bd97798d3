"""Judging: which of several narrower models is best, by a score, before and after fine-tuning.

As Li et al. do ("Revisiting random channel pruning", CVPR 2022): all candidates are scored as they
are, the best few are trained for a while, and the best of these is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ampere.errors import DataError

if TYPE_CHECKING:
    from torch import nn

    from ampere.datasets import Dataset
    from ampere.pytorch.pruning.slimmer import Slim, Slimmer

    Score: TypeAlias = Callable[[nn.Module], float]
    FineTune: TypeAlias = Callable[[nn.Module], object]

SCORED = 8  # candidates that are built and scored, where there is something to score them by
FINALISTS = 2  # of them that are fine-tuned


def unwatched(doing: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Candidate:
    """Widths that fit, and the model that has them."""

    widths: Mapping[str, int]
    slim: Slim


@dataclass(frozen=True)
class Judge:
    """Who decides between candidates that fit: the score, before and after fine-tuning."""

    score: Score | None
    fine_tune: FineTune | None
    accuracy: Score | None = None  # on data that neither chose nor trained anything

    @property
    def candidates(self) -> int:
        """How many are worth building."""
        return SCORED if self.score else 1

    @property
    def finalists(self) -> int:
        """How many are fine-tuned."""
        if self.fine_tune is None:
            return 0
        return FINALISTS if self.score else 1

    @classmethod
    def of(
        cls, slimmer: Slimmer, data: Dataset | str | None, score: Score | None,
        fine_tune: FineTune | None, fine_tune_steps: int, learning_rate: float | None, seed: int,
    ) -> Judge:  # fmt: skip
        """By the user's own functions, or by loss and training on data."""
        if fine_tune_steps < 0:
            raise DataError(f"fine-tuning of {fine_tune_steps} steps cannot be: use 0 or more")
        if data is None:
            if fine_tune_steps and fine_tune is None:
                raise DataError("fine-tuning needs data: pass --data, or your own fine_tune")
            return cls(score, fine_tune)
        from ampere.pytorch.pruning.tuner import judge, load_data, refresh_statistics, tune

        spec, *others = slimmer.inputs
        if others:
            raise DataError("data are for models with one input: pass your own score instead")
        if isinstance(data, str):
            data = load_data(data, spec.shape, dtype=spec.dtype, seed=seed)
        if data.shape != spec.shape:
            raise DataError(f"{data.name} are of shape {data.shape}, the model takes {spec.shape}")
        samples = data

        def loss_on_data(model: nn.Module) -> float:
            refresh_statistics(model, samples.train)
            return -judge(model, samples.validation).loss

        def train_on_data(model: nn.Module) -> None:
            tune(
                model, samples.train, fine_tune_steps, batch_size=slimmer.training.batch_size,
                optimizer=slimmer.training.optimizer, learning_rate=learning_rate, seed=seed,
            )  # fmt: skip

        own = train_on_data if fine_tune_steps else None
        return cls(
            score or loss_on_data,
            fine_tune or own,
            lambda model: judge(model, samples.test).accuracy,
        )

    def choose(
        self,
        slimmer: Slimmer,
        candidates: Sequence[Mapping[str, int]],
        watch: Callable[[str], None] = unwatched,
    ) -> Candidate:
        """Build all, fine-tune the best few, and take the best."""
        if self.score and len(candidates) > 1:
            watch(f"scoring {len(candidates)} candidates")
        built = self._ranked([Candidate(widths, slimmer.slim(widths)) for widths in candidates])
        if self.fine_tune is None:
            return built[0]
        finalists = built[: self.finalists]
        for number, chosen in enumerate(finalists, start=1):
            watch(f"fine-tuning {number} of {len(finalists)}")
            self.fine_tune(chosen.slim.model)
        return self._ranked(finalists)[0]

    def _ranked(self, built: list[Candidate]) -> list[Candidate]:
        score = self.score
        if score is None or len(built) < 2:
            return built

        def rank(chosen: Candidate) -> float:
            points = float(score(chosen.slim.model))
            return math.inf if math.isnan(points) else -points  # what has no score comes last

        return sorted(built, key=rank)
