"""Recorded: a journal replayed as a device, so that strategies are compared on real data offline.

It can only load the networks that its journal has, and their bursts come back in the order in which
they were measured, the drift of their moments divided out. Whoever chooses what to measure chooses
among `networks`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.core.workloads import IDLE_STEP_S, Workload, workload_identity
from ampere.devices.base import Burst, Loaded
from ampere.errors import DataError, MeasurementFailed
from ampere.frameworks.models import layers_of
from ampere.meters.base import Provenance, Resolution
from ampere.meters.surroundings import Watched
from ampere.records.journal import devices_of, provenance_of, read_journal
from ampere.records.measurement import Measurement

BURSTS = ("energy_j", "time_s", "energy_drift", "drift")  # as a journal has them, one value a burst


class RecordedDevice:
    """The device of a journal, as far as the journal knows it.

    Args:
        path: A profile, or any journal. Rows without seconds cannot be replayed.
    """

    resolution = Resolution()

    def __init__(self, path: str | Path) -> None:
        self._header, rows = read_journal(path)
        if len(devices := devices_of(self._header, rows)) > 1:
            raise DataError(
                f"{path} has rows of {len(devices)} devices ({', '.join(devices)}): they cannot be"
                " replayed as one"
            )
        self._clock_s = time.time()
        self._original = provenance_of(self._header, rows)
        self._rows = {
            workload_identity(row.stage, row.layers): row
            for row in rows
            if row.energy_j_per_step is not None and row.time_s_per_step is not None
        }
        if not self.networks:
            raise DataError(f"{path} has no measurement to replay: no joules and seconds of a step")
        self.meter: Mapping[str, Json] = {"name": "recorded", "settings": {"path": str(path)}}
        self._loaded: dict[int, Iterator[tuple[float, float]]] = {}

    @property
    def provenance(self) -> Provenance:
        """Recorded, if they were measured once; else what they were."""
        original = self._original
        return Provenance.RECORDED if original.metered == "measured" else original

    @property
    def networks(self) -> tuple[Measurement, ...]:
        """Whole training steps that it can replay."""
        return tuple(row for row in self._rows.values() if row.stage == "step")

    @property
    def fingerprint(self) -> Fingerprint:
        """The journal's own, marked as recorded."""
        original = self._header.fingerprint
        return Fingerprint({**original.identity, "recorded": "yes"}, original.conditions)

    def load(self, workload: Workload) -> Loaded:
        """Find a network in the journal."""
        handle = 1 + max(self._loaded, default=0)
        self._loaded[handle] = cycle(self._bursts(workload))
        return Loaded(handle)

    def burst(self, handle: int, steps: int) -> Burst:
        """The next of the bursts that were measured, for so many steps."""
        energy_j, time_s = next(self._loaded[handle])
        self._clock_s += steps * time_s
        return Burst(steps, steps * energy_j, steps * time_s)

    def unload(self, handle: int) -> None:
        """Forget a network."""
        self._loaded.pop(handle, None)

    def watch(self, time_s: float) -> Watched:
        """Nothing happens, and nobody waits for it."""
        self._clock_s += time_s
        return Watched(time_s)

    def now(self) -> float:
        """Its own clock: its measurements are made now, and take what they took then."""
        return self._clock_s

    def close(self) -> None:
        """Nothing is held."""

    def _bursts(self, workload: Workload) -> list[tuple[float, float]]:
        """Joules and seconds of a step, burst by burst."""
        header = self._header
        if workload.stage == "idle":
            return [((header.idle_w or 0.0) * IDLE_STEP_S, IDLE_STEP_S)]
        if workload.stage == "reference":  # the same at all times: whatever it is, it cancels out
            return [(header.reference_energy_j or 1.0, header.reference_time_s or 1.0)]
        row = self._rows.get(workload_identity(workload.stage, _layers_of(workload)))
        if row is None:
            raise MeasurementFailed("it is not in the recorded journal")
        return _corrected(row)


def _layers_of(workload: Workload) -> Sequence[Layer]:
    if workload.model is None:
        return workload.layers
    return layers_of(workload.model)


def _corrected(row: Measurement) -> list[tuple[float, float]]:
    """Bursts as the row's own numbers came from them; without bursts, those numbers."""
    columns = [row.bursts.get(name) for name in BURSTS]
    lists = [column for column in columns if isinstance(column, list)]
    costs = []
    if len(lists) == len(BURSTS) and len({len(column) for column in lists}) == 1:
        left_out = row.bursts.get("outlier") or ()
        for i, values in enumerate(zip(*lists, strict=True)):
            if i not in left_out and all(map(_is_cost, values)):  # null: a reading that was lost
                joules, seconds, hungrier, slower = values
                costs.append((joules / hungrier, seconds / slower))
    return costs or [(row.energy_j, row.time_s)]


def _is_cost(value: Json) -> bool:
    return isinstance(value, (int, float)) and value > 0
