"""Interludes: what lies between steps and costs joules: validation, checkpoints, anything else.

validation was told     comes when it was said to; worth so many steps, whatever a step turns
                        out to take, until one was seen
others were seen        as dear as these; as often as these, or at their distance from each
                        other if that is always the same
nothing of either       a small share that may come yet
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ampere.core.boundary.fields import Fields
from ampere.core.types import Json
from ampere.errors import DataError

UNSEEN = (0.02, 0.04)  # mean and deviation of interludes' share as long as none was seen
OFTEN = 0.6  # of an epoch: interludes that come more often are not its ends
STEADY = 0.2  # of the distance between interludes: those that vary less come again after as many
DUE = 0.95  # of the steps between interludes, after which the next may come
SURE = 2.3  # deviations: 99 % of what was told


@dataclass(frozen=True)
class Validation:
    """What was said of validation before the run.

    Args:
        every: After how many steps it comes.
        worth: How many steps would take as much.
        error: Relative standard deviation of that.
    """

    every: int
    worth: float
    error: float

    def __post_init__(self) -> None:
        if self.every < 1 or not (0 < self.worth < math.inf and 0 <= self.error < math.inf):
            raise DataError(f"{self} is no validation")

    def follows(self, step: int) -> bool:
        """Whether what comes before or after this step is it."""
        return (step + 1) % self.every <= 2

    def count(self, done: int, steps: int) -> int:
        """How often it comes in so many steps after those that are done."""
        return (done + steps) // self.every - done // self.every


class Tally:
    """Interludes of one sort that were seen."""

    def __init__(self) -> None:
        self.count = 0
        self.dearest_j = self.sum_j = self._squares = 0.0
        self.step = 0  # of the last one
        self._gaps = 0.0  # squares of steps between them

    def tell(self, energy_j: float, step: int) -> None:
        """One more."""
        self.count += 1
        self._gaps += (step - self.step) ** 2
        self.dearest_j = max(self.dearest_j, energy_j)
        self.sum_j += energy_j
        self._squares += energy_j**2
        self.step = step

    @property
    def is_steady(self) -> bool:
        """Whether they come at the same distance from each other."""
        if self.count < 2:
            return False
        gap = self.step / self.count
        return self._gaps / self.count - gap**2 <= (STEADY * gap) ** 2

    def ahead(self, count: float) -> tuple[float, float]:
        """Joules of so many more, and their deviation."""
        mean_j = self.sum_j / self.count
        spread = max(0.0, self._squares / self.count - mean_j**2)
        # Of one or two nobody knows how they vary: then as much as half of one.
        std_j = math.sqrt(spread + (0.5 * mean_j) ** 2 / self.count)
        return count * mean_j, math.sqrt(max(count, 1.0)) * std_j

    def state(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "count": self.count,
            "sum_j": self.sum_j,
            "squares": self._squares,
            "dearest_j": self.dearest_j,
            "step": self.step,
            "gaps": self._gaps,
        }

    def restore(self, fields: Fields) -> None:
        """Go on from what `state` told."""
        self.count = fields.whole("count", 0)
        self.sum_j = fields.number("sum_j", 0.0, least=0)
        self._squares = fields.number("squares", 0.0, least=0)
        self.dearest_j = fields.number("dearest_j", 0.0, least=0)
        self.step = fields.whole("step", 0)
        self._gaps = fields.number("gaps", 0.0, least=0)


class Interludes:
    """Learns what interludes take and when they come.

    Args:
        told: What was said of validation, if anything.
    """

    def __init__(self, told: Validation | None = None) -> None:
        self._told = told
        self._validations, self._others = Tally(), Tally()
        self._steps_j = 0.0

    def tell(self, energy_j: float, step: int) -> None:
        """One that came before this step."""
        validates = self._told is not None and self._told.follows(step)
        (self._validations if validates else self._others).tell(energy_j, step)

    def tell_steps(self, energy_j: float) -> None:
        """Joules of steps, between interludes."""
        self._steps_j += energy_j

    @property
    def share(self) -> float:
        """Joules of interludes for each joule of steps, as far as was seen or told."""
        seen_j = self._validations.sum_j + self._others.sum_j
        seen = seen_j / self._steps_j if self._steps_j > 0 else 0.0
        if self._told is None or self._validations.count:
            return seen
        return seen + self._told.worth / self._told.every

    def dearest_j(self, step_j: float) -> float:
        """What one takes at most, as far as was seen or told, where a step takes `step_j`."""
        return max(self._others.dearest_j, self._validation_j(step_j))

    def due_j(self, step: int, epoch_steps: int | None, step_j: float) -> float:
        """Joules of interludes that may come with the next step; 0 if none is due."""
        due_j = 0.0
        if self._told is not None and step % self._told.every + 2 >= self._told.every:
            due_j += self._validation_j(step_j)
        if self._others.count:
            gap, at_ends = self._gap(step, epoch_steps)
            since = step % gap if at_ends else step - self._others.step
            due_j += self._others.dearest_j if since + 2 >= DUE * gap else 0.0
        return due_j

    def ahead(
        self, plain_j: float, steps: int, done: int, epoch_steps: int | None
    ) -> tuple[float, float]:
        """Joules of those to come, and their deviation, beside steps of `plain_j`."""
        mean_j = std_j = 0.0
        told = self._told
        if told is not None and self._validations.count:
            mean_j, std_j = self._validations.ahead(told.count(done, steps))
        elif told is not None:  # all are off alike
            mean_j = told.count(done, steps) * told.worth * plain_j / steps
            std_j = told.error * mean_j
        if self._others.count:
            gap, at_ends = self._gap(done, epoch_steps)
            count = (done + steps) // gap - done // gap if at_ends else steps / gap
            other_j, other_std_j = self._others.ahead(count)
            off = 0.0 if at_ends else 0.5 / max(count, 0.5)  # once more, or not
            if not at_ends and not self._others.is_steady:  # nobody knows how often
                off = math.sqrt(1 / self._others.count + 1 / max(count, 0.5))
            return mean_j + other_j, math.hypot(std_j, other_std_j, off * other_j)
        if told is not None:
            return mean_j, std_j
        unseen = (steps / (steps + done)) ** 2  # what did not come in half of it hardly will
        return UNSEEN[0] * unseen * plain_j, UNSEEN[1] * unseen * plain_j

    def _validation_j(self, step_j: float) -> float:
        if self._told is None or self._validations.count:
            return self._validations.dearest_j
        return step_j * self._told.worth * (1 + SURE * self._told.error)

    def _gap(self, done: int, epoch_steps: int | None) -> tuple[float, bool]:
        """Steps between two others, and whether they come at the ends of epochs."""
        others = self._others
        at_end = epoch_steps is not None and (others.step + 1) % epoch_steps <= 2
        if epoch_steps is not None and at_end and others.step > OFTEN * others.count * epoch_steps:
            return float(epoch_steps), True
        return max(1.0, (others.step if others.is_steady else done) / others.count), False

    def state(self) -> dict[str, Json]:
        """What was seen, as plain data."""
        return {
            "validations": self._validations.state(),
            "others": self._others.state(),
            "steps_j": self._steps_j,
        }

    def restore(self, fields: Fields) -> None:
        """Go on from what `state` told."""
        self._validations.restore(fields.inner("validations", {}))
        self._others.restore(fields.inner("others", {}))
        self._steps_j = fields.number("steps_j", 0.0, least=0)
