"""Prometheus: the last look at a run as a text file that node_exporter's textfile collector reads.

    prometheus:file=/var/lib/node_exporter/textfile_collector/ampere.prom

The file is replaced as a whole, so that nobody reads half of it. Prometheus keeps the history.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from ampere.core.boundary.files import write_whole
from ampere.gates.sinks.base import in_run, numbers, seconds
from ampere.gates.story import End, Start, Status

FILE = "ampere.prom"
_METRICS = {  # by the names of `numbers`: what they are called there, which type, what they are
    "spent_j": ("energy_joules_total", "counter", "Joules that the run has taken."),
    "power_w": ("power_watts", "gauge", "Watts between the last two looks."),
    "forecast_j": ("forecast_joules", "gauge", "What the whole run will take."),
    "forecast_j_low": ("forecast_low_joules", "gauge", "The forecast's lower bound."),
    "forecast_j_high": ("forecast_high_joules", "gauge", "The forecast's upper bound."),
    "budget_j": ("budget_joules", "gauge", "What it may take."),
    "overhead": ("overhead_ratio", "gauge", "Joules per joule of the estimate."),
    "spent_gco2e": ("emissions_grams_total", "counter", "Grams of CO2e that it has emitted."),
    "spent_cost": ("cost_total", "counter", "What it has cost, in the currency of the label."),
    "step": ("step", "gauge", "Optimiser steps that are done."),
    "time": ("last_look_timestamp_seconds", "gauge", "When it was looked at."),
    "ended": ("ended", "gauge", "Whether the run has ended."),
}


class PrometheusSink:
    """RUN/ampere.prom, or the file that is named."""

    name: ClassVar[str] = "prometheus"

    def __init__(self, run: Path | None, file: str = "") -> None:
        self._path = Path(file) if file else in_run(run, FILE)
        self._own = not file
        self._labels: dict[str, str] = {}
        self._last: dict[str, float] = {}

    def start(self, start: Start) -> None:
        """What every line is labelled with."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._labels = {
            "run": start.run,
            "name": start.name,
            "meter": start.meter,
            "provenance": start.provenance.value,
            "currency": start.currency,
        }

    def status(self, status: Status) -> None:
        """The file, anew."""
        self._last = {**numbers(status), "step": status.step, "ended": 0}
        self._write(status.time, status.verdict.value)

    def end(self, end: End) -> None:
        """What it came to; the file stays."""
        self._last |= {"spent_j": end.spent_j, "step": end.step, "ended": 1}
        self._write(end.time, end.reason.value)

    def _write(self, time: str, verdict: str) -> None:
        values = {**self._last, "time": seconds(time)}
        text = "".join(
            _metric(*_METRICS[name], _labelled(self._labels), value)
            for name, value in values.items()
        )
        state = _labelled({**self._labels, "verdict": verdict})
        text += _metric("verdict", "gauge", "How the run stands, or why it ended.", state, 1)
        write_whole(self._path, text, own=self._own)


def _metric(name: str, kind: str, summary: str, labels: str, value: float) -> str:
    full = f"ampere_{name}"
    return f"# HELP {full} {summary}\n# TYPE {full} {kind}\n{full}{labels} {value!r}\n"


def _labelled(labels: dict[str, str]) -> str:
    parts = [f'{name}="{_escaped(value)}"' for name, value in labels.items() if value]
    return f"{{{','.join(parts)}}}" if parts else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
