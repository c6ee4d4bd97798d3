"""Terms: what a run may take, and what happens when it would take more."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ampere.core import units
from ampere.errors import DataError

if TYPE_CHECKING:
    from ampere.gates.gate import Gate

    OnExceed: TypeAlias = str | Callable[[Gate], Any]

STOP, WARN = "stop", "warn"


@dataclass(frozen=True)
class Terms:
    """The limits of a run.

    Args:
        budget_j: Joules of the whole run; None if it is only watched.
        budget: The same as the user wrote it.
        steps: Optimiser steps of the whole run, where they are known.
        epochs: The same in passes over the data.
        confidence: How surely the budget shall hold, where the run is judged before it.
        reserve_j: What is kept for saving the last checkpoint.
        on_exceed: At the budget: `stop`, `warn`, or a function that is called with the gate, and
            lets the run go on by returning False.
        on_error: Where there is no meter, or it fails for a minute: `warn` and go on, or `stop`.
        on_refusal: Where the run will not fit as far as is known before it: `stop` or `warn`.
    """

    budget_j: float | None = None
    budget: str = ""
    steps: int | None = None
    epochs: int | None = None
    confidence: float = 0.9
    reserve_j: float = 0.0
    on_exceed: OnExceed = STOP
    on_error: str = WARN
    on_refusal: str = STOP

    def __post_init__(self) -> None:
        if self.budget_j is not None and not 0 < self.budget_j < math.inf:
            raise DataError(f"a budget of {self.budget or self.budget_j} leaves room for nothing")
        if not (callable(self.on_exceed) or self.on_exceed in (STOP, WARN)):
            raise DataError(f"on_exceed is {self.on_exceed!r}: use 'stop', 'warn' or a function")
        for name in ("on_error", "on_refusal"):
            if getattr(self, name) not in (STOP, WARN):
                raise DataError(f"{name} is {getattr(self, name)!r}: use 'stop' or 'warn'")
        for name in ("steps", "epochs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DataError(f"{value} {name} is no training: use 1 or more")
        if not 0 < self.confidence < 1:
            raise DataError(f"confidence is {self.confidence}: use a probability such as 0.9")
        if not 0 <= self.reserve_j < math.inf:
            raise DataError(f"a reserve of {self.reserve_j} J cannot be kept: use 0 or more")
        if self.budget_j is not None and self.reserve_j >= self.budget_j:
            raise DataError(
                f"a reserve of {units.joules(self.reserve_j)} leaves nothing of a budget of"
                f" {self.budget_text}: reserve less"
            )

    @property
    def budget_text(self) -> str:
        """The budget as the user wrote it."""
        return self.budget or units.joules(math.nan if self.budget_j is None else self.budget_j)
