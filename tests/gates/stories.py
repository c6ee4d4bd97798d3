"""A run as a gate tells it."""

from __future__ import annotations

from collections.abc import Sequence

from ampere.gates.sinks.base import Sink
from ampere.gates.story import End, Event, Reason, Start, Status, Verdict
from ampere.meters.base import Provenance


def start(run: str = "a1b2", spent_j: float = 0.0, **changes: object) -> Start:
    fields: dict[str, object] = {
        "meter": "cpu",
        "device": "pi, Cortex-A72",
        "name": "digits",
        "steps": 100,
        "budget": "1 kJ",
        "budget_j": 1000.0,
        "carbon_g_per_kwh": 56.0,
        "price_per_kwh": 0.3,
        "currency": "EUR",
        "grid": "France",
        **changes,
    }
    when = "2026-11-18T09:00:00+00:00"
    return Start(run, when, Provenance.MODELLED, spent_j=spent_j, **fields)  # type: ignore[arg-type]


def status(look: int, **changes: object) -> Status:
    fields: dict[str, object] = {
        "elapsed_s": 4.0 * look,
        "steps": 100,
        "power_w": 6.0,
        "forecast_j": 620.0,
        "forecast_j_interval": (600.0, 650.0),
        "budget_j": 1000.0,
        "spent_gco2e": 36.0 * look * 56 / 3.6e6,
        "spent_cost": 36.0 * look * 0.3 / 3.6e6,
        **changes,
    }
    when = f"2026-11-18T09:00:{4 * look:02d}+00:00"
    spent_j = 36.0 * look
    return Status(when, 10 * look, spent_j, Provenance.MODELLED, Verdict.INSIDE, **fields)  # type: ignore[arg-type]


def end(reason: Reason = Reason.FINISHED, spent_j: float = 360.0) -> End:
    return End("2026-11-18T09:00:40+00:00", reason, 100, spent_j, Provenance.MODELLED, 40.0)


def story() -> list[Event]:
    return [start(), *map(status, range(1, 11)), end()]


def tell(sink: Sink, events: Sequence[Event]) -> None:
    """As a gate does."""
    for event in events:
        if isinstance(event, Start):
            sink.start(event)
        elif isinstance(event, Status):
            sink.status(event)
        else:
            sink.end(event)
