"""What a sink is, and the numbers that all of them tell."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from ampere.core.types import Json
from ampere.errors import DataError
from ampere.gates.story import End, Start, Status


@runtime_checkable
class Sink(Protocol):
    """Something that is told of a run as it goes on.

    It is made with the run's folder (None if there is none) and its own settings, and opens nothing
    yet; then it is told of one start, of any number of statuses, and of one end. What fails is
    raised: the gate says it once, and goes on without it.
    """

    def start(self, start: Start) -> None:
        """What is known before the first step; whatever has to be opened is opened now."""

    def status(self, status: Status) -> None:
        """One look at the run."""

    def end(self, end: End) -> None:
        """How it ended; nothing is told after it, so whatever is open is closed."""


def numbers(status: Status) -> dict[str, float]:
    """What a status knows, by the names under which trackers keep it."""
    low, high = status.forecast_j_interval or (None, None)
    known = {
        "spent_j": status.spent_j,
        "power_w": status.power_w,
        "forecast_j": status.forecast_j,
        "forecast_j_low": low,
        "forecast_j_high": high,
        "budget_j": status.budget_j,
        "overhead": status.overhead,
        "spent_gco2e": status.spent_gco2e,
        "spent_cost": status.spent_cost,
    }
    return {name: float(value) for name, value in known.items() if value is not None}


def facts(start: Start) -> dict[str, Json]:
    """What a tracker keeps beside the numbers: above all, what kind of joules they are."""
    return {
        "run": start.run,
        "provenance": start.provenance.value,
        "energy": f"joules are {start.provenance.origin}",
        "meter": start.meter,
        "device": start.device,
        "budget": start.budget,
        "budget_j": start.budget_j,
        "steps": start.steps,
        "estimate_j": start.estimate_j,
        "carbon_g_per_kwh": start.carbon_g_per_kwh,
        "grid": start.grid,
        "currency": start.currency,
    }


def in_run(run: Path | None, name: str) -> Path:
    """Something of a run's folder; a run that has none is refused."""
    if run is None:
        raise DataError(f"{name} belongs into the run's folder: give one, e.g. --run runs/a")
    return run / name


def seconds(time: str) -> float:
    """A moment of the story, in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()
