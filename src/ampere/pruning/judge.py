"""Judge: which of several narrower models is best, by a score, before and after fine-tuning.

As Li et al. do ("Revisiting random channel pruning", CVPR 2022): all candidates are scored as they
are, the best few are trained for a while, and the best of these is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ampere.datasets.samples import Dataset
from ampere.errors import DataError
from ampere.pruning.search import Candidates

if TYPE_CHECKING:
    from torch import nn

    from ampere.pytorch.pruning.slimmer import Slim, Slimmer

    Score: TypeAlias = Callable[[nn.Module], float]
    FineTune: TypeAlias = Callable[[nn.Module], object]

SCORED = 8  # candidates that are built and scored, where there is something to score them by
FINALISTS = 2  # of them that are fine-tuned


def unwatched(doing: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Judging:
    """What candidates are judged by, and how the best are fine-tuned.

    Args:
        data: Data to score and fine-tune on: `digits`, `celeba:DIR`, `path/file.py:function`, or
            the data themselves.
        fine_tune_steps: Steps of fine-tuning for each finalist; they count towards the job.
        learning_rate: Of fine-tuning; by default 0.01 for sgd and momentum, 0.001 for the others.
        score: Your own score of a model, the higher the better, in place of the loss on `data`.
        fine_tune: Your own fine-tuning of a model, in place of training on `data`.
    """

    data: Dataset | str | None = None
    fine_tune_steps: int = 0
    learning_rate: float | None = None
    score: Score | None = None
    fine_tune: FineTune | None = None

    def __post_init__(self) -> None:
        if self.fine_tune_steps < 0:
            raise DataError(f"fine-tuning of {self.fine_tune_steps} steps cannot be: use 0 or more")
        if self.fine_tune_steps and self.data is None and self.fine_tune is None:
            raise DataError("fine-tuning needs data: give some, or your own fine_tune")


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

    def choose(
        self, slimmer: Slimmer, candidates: Candidates, watch: Callable[[str], None] = unwatched
    ) -> Candidate:
        """Build all, fine-tune the best few, and take the best."""
        if self.score and len(candidates) > 1:
            watch(f"scoring {len(candidates)} candidates")
        ranked = self._ranked([Candidate(widths, slimmer.slim(widths)) for widths in candidates])
        if self.fine_tune is None:
            return ranked[0]
        finalists = ranked[: self.finalists]
        for number, finalist in enumerate(finalists, start=1):
            watch(f"fine-tuning {number} of {len(finalists)}")
            self.fine_tune(finalist.slim.model)
        return self._ranked(finalists)[0]

    def _ranked(self, candidates: list[Candidate]) -> list[Candidate]:
        score = self.score
        if score is None or len(candidates) < 2:
            return candidates

        def rank(candidate: Candidate) -> float:
            points = float(score(candidate.slim.model))
            return math.inf if math.isnan(points) else -points  # what has no score comes last

        return sorted(candidates, key=rank)


def make_judge(judging: Judging, slimmer: Slimmer, seed: int) -> Judge:
    """By the user's own functions, or by loss and training on data."""
    if judging.data is None:
        return Judge(judging.score, judging.fine_tune)
    trial = _Trial(_open_data(judging.data, slimmer, seed), slimmer, judging, seed)
    return Judge(
        score=judging.score or trial.score,
        fine_tune=judging.fine_tune or (trial.fine_tune if judging.fine_tune_steps else None),
        accuracy=trial.accuracy,
    )


@dataclass(frozen=True)
class _Trial:
    """How models do on data: each part of these for one purpose."""

    data: Dataset
    slimmer: Slimmer
    judging: Judging
    seed: int

    def score(self, model: nn.Module) -> float:
        """The higher the better, on what trains nothing; batch statistics are taken anew."""
        from ampere.pytorch.pruning.tuner import judge, refresh_statistics

        refresh_statistics(model, self.data.train)
        return -judge(model, self.data.validation).loss

    def fine_tune(self, model: nn.Module) -> None:
        """Train as the original is."""
        from ampere.pytorch.pruning.tuner import tune

        tune(
            model,
            self.data.train,
            self.judging.fine_tune_steps,
            batch_size=self.slimmer.training.batch_size,
            optimizer=self.slimmer.training.optimizer,
            learning_rate=self.judging.learning_rate,
            seed=self.seed,
        )

    def accuracy(self, model: nn.Module) -> float:
        """The share of test samples that it gets right."""
        from ampere.pytorch.pruning.tuner import judge

        return judge(model, self.data.test).accuracy


def _open_data(data: Dataset | str, slimmer: Slimmer, seed: int) -> Dataset:
    from ampere.pytorch.pruning.tuner import load_data

    spec, *others = slimmer.inputs
    if others:
        raise DataError("data are for models with one input: pass your own score instead")
    if isinstance(data, str):
        data = load_data(data, spec.shape, dtype=spec.dtype, seed=seed)
    if data.shape != spec.shape:
        raise DataError(f"{data.name} are of shape {data.shape}, the model takes {spec.shape}")
    return data
