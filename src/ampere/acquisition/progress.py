"""Progress: what a run of measurements is doing, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """What is being measured, how much is done, and how long the rest will take."""

    doing: str
    done: int
    total: int
    seconds_left: float


Watch = Callable[[Event], None]


def unwatched(event: Event) -> None:
    """Nobody watches."""
