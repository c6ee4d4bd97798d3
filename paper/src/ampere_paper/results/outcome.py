"""Outcome: what became of an experiment."""

from __future__ import annotations

from dataclasses import dataclass

from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment


@dataclass(frozen=True)
class Outcome:
    """Data and what they say, or why there are none."""

    experiment: Experiment
    finding: str
    data: Json = None
    failed: str | None = None
    seconds: float = 0.0
