"""OpenTelemetry: `hw.energy` in joules, as its conventions for hardware have it, and the forecast.

It goes to the process's own MeterProvider: set one (`metrics.set_meter_provider`), or start the
program by `opentelemetry-instrument`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ampere.errors import DataError
from ampere.gates.sinks.base import numbers
from ampere.gates.story import End, Start, Status

_GAUGES = {  # by the names of `numbers`; hw.energy is the counter
    "power_w": ("hw.power", "W", "Watts between the last two looks."),
    "forecast_j": ("ampere.forecast", "J", "What the whole run will take."),
    "forecast_j_low": ("ampere.forecast.low", "J", "The forecast's lower bound."),
    "forecast_j_high": ("ampere.forecast.high", "J", "The forecast's upper bound."),
    "budget_j": ("ampere.budget", "J", "What the run may take."),
    "spent_gco2e": ("ampere.emissions", "g", "CO2e that the run has emitted."),
}
# What a meter sees, in the words of the conventions; others see a whole device.
_TYPES = {
    **dict.fromkeys(("cpu", "tree", "rapl", "emi"), "cpu"),
    **dict.fromkeys(("nvml", "amdsmi"), "gpu"),
    **dict.fromkeys(("battery", "android", "iphone"), "battery"),
}


class OpenTelemetrySink:
    """Joules since the start as a counter; resumed runs count on from what they had."""

    name: ClassVar[str] = "opentelemetry"
    library: ClassVar[str] = "OpenTelemetry"

    def __init__(self, run: Path | None) -> None:
        from opentelemetry import metrics

        provider = metrics.get_meter_provider()
        if type(provider).__module__.startswith("opentelemetry.metrics"):  # the API's own stand-in
            raise DataError(
                "the sink opentelemetry has nobody to tell: set a MeterProvider, or start the"
                " program by opentelemetry-instrument"
            )
        self._provider: Any = provider
        meter = provider.get_meter("ampere")
        self._energy = meter.create_counter("hw.energy", "J", "Energy consumed by the component.")
        self._gauges = {
            name: meter.create_gauge(title, unit, summary)
            for name, (title, unit, summary) in _GAUGES.items()
        }
        self._labels: dict[str, str] = {}
        self._told_j = 0.0

    def start(self, start: Start) -> None:
        """Whose joules they are."""
        meter = start.meter.partition(":")[0]
        self._labels = {
            "hw.id": start.meter or "meter",
            "hw.type": _TYPES.get(meter, "device"),
            "hw.name": start.device,
            "ampere.run": start.run,
            "ampere.provenance": start.provenance.value,
        }
        self._told_j = start.spent_j

    def status(self, status: Status) -> None:
        """What was added to the counter, and the gauges."""
        self._add(status.spent_j)
        for name, value in numbers(status).items():
            if name in self._gauges:
                self._gauges[name].set(value, self._labels)

    def end(self, end: End) -> None:
        """The last joules, sent now: the process may be about to end."""
        self._add(end.spent_j)
        if hasattr(self._provider, "force_flush"):
            self._provider.force_flush()

    def _add(self, spent_j: float) -> None:
        added_j = max(spent_j - self._told_j, 0.0)  # a counter never falls
        self._energy.add(added_j, self._labels)
        self._told_j += added_j
