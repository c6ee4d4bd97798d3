"""Verification: narrower models under the meter, before anything is trained.

A share of the full model is as uncertain as both estimates are. So candidates that take more than
the budget allows are dropped; where none is left, they are looked for again, with as much less
allowed as the meter said too much: whatever the cause, others of nearly the same joules share it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ampere.core.choices import resize
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.layers import Layer
from ampere.core.workloads import Workload
from ampere.devices.base import Device
from ampere.errors import DataError
from ampere.frameworks.models import with_features
from ampere.profiles.profile import Profile
from ampere.pruning.search import Candidates
from ampere.records.measurement import Measurement, succeeded
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure
from ampere.sittings.reference import Reference

ROUNDS = 3
MARGIN = 0.99  # of what is left, so that noise alone does not decide the next round
VERIFYING = Effort(min_rounds=20, max_rounds=40, target=0.01)


@dataclass(frozen=True)
class Verification:
    """Meter candidates beside the whole model; those over the budget are dropped.

    Where none is left, they are looked for again with less allowed.

    Args:
        device: Where to meter; this machine unless given.
        any_device: Meter on another device than the profile's all the same.
        effort: How carefully to meter.
    """

    device: Device | None = None
    any_device: bool = False
    effort: Effort = VERIFYING

    def refuse_others(self, device: Device, profile: Profile) -> None:
        """Raise unless a device is the profile's own, or any will do."""
        if not self.any_device:
            refuse_to_mix(device.fingerprint, profile.header.fingerprint)


@dataclass(frozen=True)
class Verified:
    """Candidates inside the budget by the meter, or the best one where none is; and their rows."""

    candidates: Candidates
    whole: Measurement
    rows: Sequence[tuple[Mapping[str, int], Measurement]]
    dropped: int  # in earlier rounds

    def rows_of(self, widths: Mapping[str, int]) -> tuple[Measurement, Measurement]:
        """What the whole model and this candidate took, side by side."""
        return self.whole, next(row for metered, row in self.rows if metered == widths)


@dataclass(frozen=True)
class Verifier:
    """Who meters candidates beside the whole model, all burst by burst in turn.

    `allowed` is a share of what the whole model takes, or joules of a step.
    """

    device: Device
    nominal: Reference
    layers: Sequence[Layer]
    effort: Effort
    allowed: float
    is_share: bool
    watch: Callable[[str], None]

    def verify(
        self,
        candidates: Candidates,
        limit_j: float,
        search: Callable[[float], Candidates] | None = None,
    ) -> Verified:
        """Those that are inside; `search` looks for others under another limit."""
        dropped = 0
        for turn in range(1, ROUNDS + 1):
            whole, *rows = self._measure(candidates)
            most_j = self.allowed * (whole.energy_j if self.is_share else 1.0)
            metered = list(zip(candidates, rows, strict=True))
            inside = [widths for widths, row in metered if row.energy_j <= most_j]
            if inside or search is None or turn == ROUNDS:
                break
            limit_j *= MARGIN * statistics.median(most_j / row.energy_j for row in rows)
            try:
                candidates = search(limit_j)
            except DataError:  # even the smallest takes more: what there is stays, and is told so
                break
            dropped += len(rows)
        return Verified(inside or candidates[:1], whole, metered, dropped)

    def _measure(self, candidates: Candidates) -> list[Measurement]:
        count = len(candidates)
        self.watch("metering both models" if count == 1 else f"metering {count} candidates")
        networks = [tuple(self.layers)] + [
            tuple(map(with_features, resize(self.layers, widths))) for widths in candidates
        ]
        work = [(Workload(layers), layers) for layers in networks]
        return succeeded(measure(self.device, work, self.nominal, self.effort), "the model")
