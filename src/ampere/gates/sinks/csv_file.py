"""CSV: a run as a row of CodeCarbon's `emissions.csv`, with its interval and its provenance."""

from __future__ import annotations

import csv
import io
import os
import platform
from pathlib import Path
from typing import ClassVar

from ampere import __version__
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.rates import J_PER_KWH, country_code
from ampere.errors import DataError
from ampere.gates.sinks.base import in_run
from ampere.gates.story import End, Start, Status

FILE = "emissions.csv"
PAUSE_S = 10.0  # between two writings of the file; the end is always written
MOST_BYTES = 16 * 2**20
# CodeCarbon's, in its order (3.3): kg, kWh, W and seconds. What ampere does not know is empty.
THEIRS = (
    "timestamp", "project_name", "run_id", "experiment_id", "duration", "emissions",
    "emissions_rate", "cpu_power", "gpu_power", "ram_power", "cpu_energy", "gpu_energy",
    "ram_energy", "energy_consumed", "water_consumed", "country_name", "country_iso_code", "region",
    "cloud_provider", "cloud_region", "os", "python_version", "codecarbon_version", "cpu_count",
    "cpu_model", "gpu_count", "gpu_model", "longitude", "latitude", "ram_total_size",
    "tracking_mode", "cpu_utilization_percent", "gpu_utilization_percent",
    "ram_utilization_percent", "ram_used_gb", "on_cloud", "pue", "wue",
)  # fmt: skip
OURS = (
    "ampere_version", "step", "power", "forecast_energy", "forecast_energy_low",
    "forecast_energy_high", "budget_energy", "verdict", "cost", "currency", "meter", "device",
    "provenance",
)  # fmt: skip


class CsvSink:
    """RUN/emissions.csv: a row for each run, replaced as the run goes on."""

    name: ClassVar[str] = "csv"

    def __init__(self, run: Path | None, file: str = "") -> None:
        self._path = Path(file) if file else in_run(run, FILE)
        self._own = not file
        self._others: list[dict[str, str]] = []
        self._start: Start | None = None
        self._status: Status | None = None
        self._written_s = -PAUSE_S

    def start(self, start: Start) -> None:
        """The row of the run; one that was resumed goes on in its own."""
        self._start = start
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._others = [row for row in self._rows() if row["run_id"] != start.run]

    def status(self, status: Status) -> None:
        """What is known by now."""
        self._status = status
        if status.elapsed_s - self._written_s >= PAUSE_S:
            self._written_s = status.elapsed_s
            self._write(status)

    def end(self, end: End) -> None:
        """What it came to."""
        self._write(end)

    def _write(self, last: Status | End) -> None:
        text = io.StringIO()
        table = csv.DictWriter(text, (*THEIRS, *OURS), restval="", extrasaction="ignore")
        table.writeheader()
        table.writerows([*self._others, self._row(last)])
        write_whole(self._path, text.getvalue(), own=self._own)

    def _rows(self) -> list[dict[str, str]]:
        """What stands in the file; somebody else's stays as it is, and is not written to."""
        if not self._path.exists():
            return []
        text = read_whole(self._path, MOST_BYTES, own=self._own).decode(errors="replace")
        table = csv.DictReader(io.StringIO(text))
        if table.fieldnames and set(table.fieldnames) != {*THEIRS, *OURS}:
            raise DataError(
                f"{self._path} has other columns than ampere writes: move it, or give another file"
                " (csv:file=PATH)"
            )
        return [{name: row[name] or "" for name in (*THEIRS, *OURS)} for row in table]

    def _row(self, last: Status | End) -> dict[str, object]:
        start, status = self._start, self._status
        emitted_g = self._emitted_g(last.spent_j)
        known: dict[str, object] = {
            "timestamp": last.time,
            "duration": last.elapsed_s,
            "energy_consumed": last.spent_j / J_PER_KWH,
            "os": platform.platform(),
            "python_version": platform.python_version(),
            "cpu_count": os.cpu_count(),
            "pue": 1,  # nothing is added for cooling
            "ampere_version": __version__,
            "step": last.step,
            "provenance": last.provenance.value,
        }
        if emitted_g is not None:
            known["emissions"] = emitted_g / 1000
            known["emissions_rate"] = emitted_g / 1000 / last.elapsed_s if last.elapsed_s else ""
        if start is not None:
            known |= {
                "project_name": start.name,
                "run_id": start.run,
                "country_name": start.grid,
                "country_iso_code": country_code(start.grid),
                "currency": start.currency,
                "meter": start.meter,
                "device": start.device,
            }
        outlook = self._outlook(status) if status else {}
        ended = {"verdict": last.reason.value} if isinstance(last, End) else {}
        return {**known, **outlook, **ended}

    def _outlook(self, status: Status) -> dict[str, object]:
        low, high = status.forecast_j_interval or (None, None)
        energies = {
            "forecast_energy": status.forecast_j,
            "forecast_energy_low": low,
            "forecast_energy_high": high,
            "budget_energy": status.budget_j,
        }
        return {
            **{name: "" if j is None else j / J_PER_KWH for name, j in energies.items()},
            "power": "" if status.power_w is None else status.power_w,
            "cost": "" if status.spent_cost is None else status.spent_cost,
            "verdict": status.verdict.value,
        }

    def _emitted_g(self, spent_j: float) -> float | None:
        """By the hours of the run, as the gate has weighed them; what came since, as before."""
        status, start = self._status, self._start
        if status is not None and status.spent_gco2e is not None and status.spent_j > 0:
            return status.spent_gco2e * spent_j / status.spent_j
        if start is None or start.carbon_g_per_kwh is None:
            return None
        return start.carbon_g_per_kwh * spent_j / J_PER_KWH
