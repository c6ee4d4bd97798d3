"""Runs as gates tell them, made up: simulated joules, and they say so."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ampere.gates.story import End, Event, Part, Reason, Start, Status, Verdict
from ampere.meters.base import Provenance

BEGUN = datetime(2026, 11, 17, 9, 0, tzinfo=timezone.utc)
LAYERS = (
    *(("conv1", 610.0), ("conv2", 4220.0), ("conv3", 5130.0), ("conv4", 3480.0)),
    *(("fc1", 1270.0), ("fc2", 140.0), ("the step itself", 95.0)),
)
WH = 3600.0


def started(**changes: Any) -> Start:
    """What a run of 2,000 steps with a budget of 5 Wh says first."""
    told: dict[str, Any] = {
        "run": "a1b2c3d4",
        "time": BEGUN.isoformat(),
        "provenance": Provenance.SIMULATED,
        "meter": "simulated",
        "device": "Jetson Xavier NX (simulated)",
        "name": "cnn5 on digits",
        "steps": 2000,
        "budget": "5Wh",
        "budget_j": 5 * WH,
        "estimate_j": 4.15 * WH,
        "estimate_j_interval": (3.4 * WH, 5.1 * WH),
        "layers": tuple(Part(name, energy_j) for name, energy_j in LAYERS),
    }
    return Start(**{**told, **changes})


def looks(
    until: int = 2000, total_j: float = 4.8 * WH, every: int = 10, **changes: Any
) -> Iterator[Status]:
    """Looks at a run, up to a step: a device that warms up, a forecast that gets surer."""
    rng = random.Random(7)
    begun, budget_j = changes.pop("begun", BEGUN), changes.pop("budget_j", 5 * WH)
    steps, spent_j, elapsed_s = 2000, 0.0, 0.0
    for step in range(every, until + 1, every):
        done = step / steps
        warm = 1 + 0.12 * (1 - math.exp(-6 * done))
        time_s = 0.9 * every * (1 + 0.02 * rng.gauss(0, 1)) * (1.6 if step % 250 == 0 else 1)
        power_w = total_j / 1950 * warm * (1 + 0.025 * rng.gauss(0, 1))
        spent_j += total_j * every / steps * warm / 1.1 * (1 + 0.02 * rng.gauss(0, 1))
        elapsed_s += time_s
        width = 0.22 * (1 - done) / math.sqrt(1 + 30 * done)
        forecast_j = total_j * (1 + 0.25 * width * math.sin(9 * done))
        told: dict[str, Any] = {
            "time": (begun + timedelta(seconds=elapsed_s)).isoformat(),
            "step": step,
            "steps": steps,
            "spent_j": spent_j,
            "provenance": Provenance.SIMULATED,
            "verdict": _verdict(forecast_j, width, budget_j),
            "elapsed_s": elapsed_s,
            "power_w": power_w,
            "forecast_j": forecast_j,
            "forecast_j_interval": (forecast_j * (1 - width), forecast_j * (1 + width)),
            "budget_j": budget_j,
            "overhead": 1.08,
        }
        if budget_j and forecast_j > budget_j:
            told["stops_at"] = int(
                step + (steps - step) * (budget_j - spent_j) / (forecast_j - spent_j)
            )
        yield Status(**{**told, **changes})


def _verdict(forecast_j: float, width: float, budget_j: float | None) -> Verdict:
    if budget_j is None:
        return Verdict.FREE
    if forecast_j > budget_j:
        return Verdict.OVER
    return Verdict.RISK if forecast_j * (1 + width) > budget_j else Verdict.INSIDE


def ended(last: Status, reason: Reason = Reason.FINISHED, **changes: Any) -> End:
    """The end of a run after its last look."""
    told: dict[str, Any] = {
        "time": last.time,
        "reason": reason,
        "step": last.step,
        "spent_j": last.spent_j,
        "provenance": last.provenance,
        "elapsed_s": last.elapsed_s,
    }
    return End(**{**told, **changes})


def finished(**changes: Any) -> list[Event]:
    """A whole run."""
    told = list(looks())
    return [started(**changes), *told, ended(told[-1])]


def text_of(events: Iterable[Event]) -> str:
    """The lines of a file."""
    return "".join(json.dumps(event.to_json()) + "\n" for event in events)


def write_run(folder: Path, events: Iterable[Event]) -> Path:
    """A run's folder with its file; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gate.jsonl"
    path.write_text(text_of(events), encoding="utf-8")
    return path


def append(path: Path, *events: Event) -> None:
    """Go on, as a sink does: whole lines at once."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text_of(events))
