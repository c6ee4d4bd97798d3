"""Plan: who runs what and when, what that takes, and what was not placed."""

from __future__ import annotations

from dataclasses import dataclass

from ampere.core.types import Json


@dataclass(frozen=True)
class Assignment:
    """A job, or some of its steps, on a member.

    Args:
        job: The name of the task.
        member: Who runs it.
        start_s: When it begins, as expected.
        end_s: When it ends, as expected.
        steps: How many of its steps.
        energy_j: Joules of these, as expected.
        energy_j_interval: Their 90 % interval.
        p_battery: The probability that the member's battery lasts to the end of it, with all that
            comes before; 1 on the mains.
        p_deadline: The probability that it ends in time; 1 without a deadline.
        share: Of its joules that pruning leaves, where the plan has it pruned.
    """

    job: str
    member: str
    start_s: float
    end_s: float
    steps: int
    energy_j: float
    energy_j_interval: tuple[float, float]
    p_battery: float = 1.0
    p_deadline: float = 1.0
    share: float = 1.0

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "job": self.job,
            "member": self.member,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "steps": self.steps,
            "energy_j": self.energy_j,
            "energy_j_interval": list(self.energy_j_interval),
            "p_battery": self.p_battery,
            "p_deadline": self.p_deadline,
            "share": self.share,
        }


@dataclass(frozen=True)
class Unplaced:
    """A job that fits nowhere, why, and the least change with which it would."""

    job: str
    reason: str
    change: str = ""

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {"job": self.job, "reason": self.reason, "change": self.change}
