"""Task: a job of a fleet: what is trained, how long, when and where it may run.

    Task("digits", "zoo:lenet5", Job(steps=20_000), deadline_s=6 * 3600, chunk_steps=500)

Seconds count from the moment that the plan begins at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ampere.core import units
from ampere.core.boundary.example_inputs import Input
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.errors import DataError
from ampere.frameworks.readers import Model
from ampere.profiles.jobs.job import Job


@dataclass(frozen=True)
class Task:
    """What somebody wants to be trained.

    Args:
        name: Of its own in the fleet.
        model: As for `Profile.estimate`.
        job: How long it is trained, with what goes on around the steps.
        input: What it is fed.
        training: How it is trained; as each member's profile was unless given.
        earliest_s: It may not begin before.
        deadline_s: It must have ended by then; None if it may end whenever.
        members: Names of those that may run it; all if there are none.
        chunk_steps: It may be run in parts of so many steps, on one member after the other or on
            several; None if it must be run as a whole.
        priority: Where not all fit, those with more are placed first.
        shrink: The least share of its joules that pruning may leave of it, if the plan may have it
            pruned; None if it may not.
    """

    name: str
    model: Model | Sequence[Layer]
    job: Job
    input: Input | None = None
    training: Training | None = None
    earliest_s: float = 0.0
    deadline_s: float | None = None
    members: tuple[str, ...] = ()
    chunk_steps: int | None = None
    priority: float = 1.0
    shrink: float | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise DataError("a job of a fleet needs a name")
        if not 0 <= self.earliest_s < math.inf:
            raise DataError(f"job {self.name}: it cannot begin at {self.earliest_s} s")
        if self.deadline_s is not None and not self.earliest_s < self.deadline_s < math.inf:
            raise DataError(
                f"job {self.name}: a deadline of {units.seconds(self.deadline_s)} is not after its"
                f" earliest start ({units.seconds(self.earliest_s)})"
            )
        if self.chunk_steps is not None and self.chunk_steps < 1:
            raise DataError(f"job {self.name}: chunks of {self.chunk_steps} steps cannot be")
        if not 0 < self.priority < math.inf:
            raise DataError(f"job {self.name}: a priority is a number above 0")
        if self.shrink is not None and not 0 < self.shrink < 1:
            raise DataError(f"job {self.name}: shrink is a share between 0 and 1, such as 0.5")
