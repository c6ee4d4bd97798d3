"""Measured loader: what a batch of a user's own data takes, and how far another look may be off."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ampere.core import units
from ampere.core.fingerprint import Fingerprint, describe_device
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import Loading
from ampere.records.measurement import REACH
from ampere.records.repeats import Repeats
from ampere.sittings.loading import LoaderBursts


@dataclass(frozen=True)
class MeasuredLoader:
    """Joules and seconds of a batch, its loader's worker processes included.

    `loading` is what an estimate of a whole job takes: `profile.estimate(model, job=Job(...,
    loading=measured.loading))`.
    """

    name: str
    bursts: LoaderBursts
    fingerprint: Fingerprint
    provenance: Provenance
    when: str = ""

    @property
    def idle_j(self) -> float:
        """Joules of a batch that the device takes anyway."""
        return min(self.bursts.idle_w * self.bursts.time_s, self.bursts.energy_j)

    @property
    def error(self) -> float:
        """Its relative standard error: of bursts, of what is usual between sittings, of others."""
        own = self.bursts.spread / math.sqrt(self.bursts.repeats)
        return math.hypot(own, Repeats(self.bursts.spread).error, min(self.bursts.busy, 1.0))

    @property
    def energy_j_interval(self) -> tuple[float, float]:
        """Where the joules of a batch lie with 90 %."""
        ratio = math.exp(REACH * self.error)
        return self.bursts.energy_j / ratio, self.bursts.energy_j * ratio

    @property
    def loading(self) -> Loading:
        """What a job needs to know of it."""
        return Loading(
            time_s=self.bursts.time_s,
            energy_j=self.bursts.energy_j,
            error=self.error,
            idle_j=self.idle_j,
            workers=self.bursts.workers,
            samples=self.bursts.samples,
            device=describe_device(self.fingerprint),
            provenance=self.provenance,
        )

    @property
    def doubts(self) -> list[str]:
        """What a reader must know before believing it."""
        if not self.bursts.busy:
            return []
        others = units.percent(self.bursts.busy)
        return [f"others used {others} as much of the cores meanwhile: it may be off by as much"]

    def to_json(self) -> dict[str, Json]:
        """Plain data; `ampere estimate --loader-measured` reads it."""
        return {
            "loader": self.name,
            "energy_j_per_batch": self.bursts.energy_j,
            "energy_j_interval": list(self.energy_j_interval),
            "time_s_per_batch": self.bursts.time_s,
            "idle_j_per_batch": self.idle_j,
            "spread": self.bursts.spread,
            "error": self.error,
            "repeats": self.bursts.repeats,
            "batches": self.bursts.batches,
            "samples_per_batch": self.bursts.samples,
            "workers": self.bursts.workers,
            "provenance": self.provenance.value,
            "meter": self.fingerprint.identity.get("meter", units.UNKNOWN),
            "device_name": describe_device(self.fingerprint),
            "when": self.when,
            "warnings": self.doubts,
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        bursts = self.bursts
        low_j, high_j = map(units.joules, self.energy_j_interval)
        of = "" if bursts.samples is None else f" of {units.plural(bursts.samples, 'sample')}"
        counted = f"{units.plural(bursts.repeats, 'burst')}, {bursts.batches:,} batches in all"
        return Page(
            f"{self.name}: {units.joules(bursts.energy_j)} and {units.seconds(bursts.time_s)}"
            f" a batch{of}",
            facts=[
                ("interval", f"{low_j} – {high_j} (90 %)"),
                ("repeats", f"{counted}, agree to {units.percent(bursts.spread)}"),
                ("workers", self._workers()),
                ("idle", f"{units.joules(self.idle_j)} of it the device takes anyway"),
                ("energy", f"joules are {self.provenance.origin}"),
                ("device", describe_device(self.fingerprint)),
                ("not in it", "training: batches were drawn as fast as they came"),
                *(("warning", text) for text in self.doubts),
            ],
        )

    def _workers(self) -> str:
        if not self.bursts.workers:
            return "none: the training process loads by itself"
        return f"{units.plural(self.bursts.workers, 'worker')}, with their joules"
