"""Measured: a model that was metered itself, and how far another look may be from that."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ampere.core import units
from ampere.core.fingerprint import (
    Fingerprint,
    crowding,
    describe_device,
    runtime_of,
    takes_all_cores,
)
from ampere.core.page import Page, Range
from ampere.core.types import Json
from ampere.frameworks.models import is_translation, runtime_facts
from ampere.meters.base import Provenance
from ampere.profiles.doubts import row_doubts
from ampere.records.measurement import REACH, Measurement
from ampere.records.repeats import USUAL_CROWDED, Repeats, repeats_of


@dataclass(frozen=True)
class Measured:
    """Joules and seconds of a training step, of one sitting or the mean of several.

    `repeats` tells how sittings of this device agree: this model's own, if there were several, else
    what the last check found, else only what is usual.
    """

    rows: tuple[Measurement, ...]
    repeats: Repeats
    fingerprint: Fingerprint
    name: str = "model"

    @classmethod
    def of(
        cls,
        rows: Sequence[Measurement],
        fingerprint: Fingerprint,
        name: str = "model",
        checked: Repeats | None = None,
    ) -> Measured:
        """From the rows of its sittings, and what the last check of the device found."""
        own = repeats_of(rows)
        repeats = own if own.between is not None else checked or own
        if takes_all_cores(fingerprint):
            repeats = replace(repeats, usual=USUAL_CROWDED)
        return cls(tuple(rows), repeats, fingerprint, name)

    @property
    def energy_j(self) -> float:
        """Joules of a step."""
        return statistics.fmean(row.energy_j for row in self.rows)

    @property
    def time_s(self) -> float:
        """Seconds of a step."""
        return statistics.fmean(row.time_s for row in self.rows)

    @property
    def idle_j(self) -> float | None:
        """Joules of a step that the device takes anyway."""
        idle = [row.idle_j_per_step for row in self.rows if row.idle_j_per_step is not None]
        return statistics.fmean(idle) if idle else None

    @property
    def spread(self) -> float:
        """How far bursts of a sitting scatter."""
        return statistics.fmean(row.spread for row in self.rows)

    @property
    def error(self) -> float:
        """Its relative standard error: of bursts, and of sittings."""
        bursts = math.sqrt(statistics.fmean(row.burst_error**2 for row in self.rows))
        return math.hypot(bursts, self.repeats.error) / math.sqrt(len(self.rows))

    @property
    def energy_j_interval(self) -> tuple[float, float]:
        """Where the joules of a step lie with 90 %, with nobody else at work.

        What others do can only have added to them.
        """
        doubt = max(row.doubt for row in self.rows)
        low = math.exp(-REACH * math.hypot(self.error, doubt))
        return self.energy_j * low, self.energy_j * math.exp(REACH * self.error)

    @property
    def provenance(self) -> Provenance:
        """Where its joules come from."""
        return self.rows[0].provenance

    @property
    def doubts(self) -> list[str]:
        """What a reader must know before believing it."""
        return [*crowding(self.fingerprint), *row_doubts(self.rows)]

    def to_json(self) -> dict[str, Json]:
        """Plain data; one of a single sitting is a row that `ampere tell` takes."""
        low_j, high_j = self.energy_j_interval
        row = self.rows[-1]
        return {
            **row.to_json(),
            "energy_j_per_step": self.energy_j,
            "time_s_per_step": self.time_s,
            "idle_j_per_step": self.idle_j,
            "spread": self.spread,
            "repeats": row.repeats,
            "energy_j_interval": [low_j, high_j],
            "between_sittings": self.repeats.between,
            "sittings": len(self.rows),
            "warnings": self.doubts,
            "device_name": describe_device(self.fingerprint),
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        low_j, high_j = self.energy_j_interval
        within = f"{units.joules(low_j)} – {units.joules(high_j)}"
        bursts = units.plural(sum(row.repeats for row in self.rows), "burst")
        return Page(
            f"{self.name}: {units.joules(self.energy_j)} and {units.seconds(self.time_s)}"
            " a training step",
            ranges=[Range("interval", low_j, self.energy_j, high_j, within)],
            facts=[
                ("interval", f"{within} (90 %)"),
                ("repeats", f"{bursts} agree to {units.percent(self.spread)}; {self._again()}"),
                ("idle", f"{units.joules(self.idle_j or 0.0)} of it the device takes anyway"),
                ("energy", f"joules are {self.provenance.origin}"),
                ("device", describe_device(self.fingerprint)),
                *self._runtime(),
                ("not in it", "data loading, validation"),
                *(("warning", text) for text in self.doubts),
            ],
        )

    def _runtime(self) -> list[tuple[str, str]]:
        runtime = runtime_of(self.fingerprint)
        return runtime_facts(runtime, is_translation(self.rows[-1].layers, runtime))

    def _again(self) -> str:
        """How it repeats in another sitting, and how that is known."""
        repeats = self.repeats
        if repeats.between is None:
            return (
                f"again in some minutes: not known here, {units.percent(repeats.error)} is"
                " assumed (`ampere check` finds out)"
            )
        checked = f", by the check of {repeats.when[:10]}" if repeats.when else ""
        return (
            f"again within {units.seconds(repeats.apart_s)}: {units.percent(repeats.between)}"
            f"{checked}"
        )
