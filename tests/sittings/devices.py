"""Networks with known costs, and devices whose meters tell coarsely, late, or nonsense."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ampere.core.layers import Layer
from ampere.core.workloads import Workload
from ampere.devices.base import Burst
from ampere.errors import MeterFault
from ampere.meters.base import Resolution
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.reference import Reference
from fakes import REFERENCE_COST, FakeDevice, plain_model, total

NOMINAL = Reference(FakeDevice.idle_w, REFERENCE_COST.time_s, REFERENCE_COST.energy_j)


MODELS = [plain_model(4, 8), plain_model(16), plain_model(32, 64, 2)]


Job = tuple[Workload, tuple[Layer, ...]]


JOBS: list[Job] = [(Workload(layers), layers) for layers in MODELS]


def errors(rows: list[Measurement]) -> list[float]:
    """Relative errors of the joules."""
    return [abs(row.energy_j_per_step / total(row.layers).energy_j - 1) for row in rows]


class Counting(FakeDevice):
    """Its meter counts whole steps of joules; in too short a burst it does not move."""

    def __init__(self, step_j: float, noise: float = 0.0, seed: int = 0) -> None:
        super().__init__(noise=noise, seed=seed)
        self.resolution = Resolution(energy_j=step_j)
        self.total_j = 0.0

    def burst(self, handle: int, steps: int) -> Burst:
        burst = super().burst(handle, steps)
        step_j, before_j = self.resolution.energy_j, self.total_j
        self.total_j += burst.energy_j
        counted = self.total_j // step_j - before_j // step_j
        if not counted:
            raise MeterFault("meter did not move")
        return Burst(steps, counted * step_j, burst.time_s)


class Sampling(FakeDevice):
    """Its meter shows what the last sample showed."""

    def __init__(self, period_s: float, noise: float = 0.0, seed: int = 0) -> None:
        super().__init__(noise=noise, seed=seed)
        self.resolution = Resolution(period_s=period_s)
        self.total_j = self.shown_j = 0.0

    def burst(self, handle: int, steps: int) -> Burst:
        start_s, period_s, shown_j = self.clock_s, self.resolution.period_s, self.shown_j
        burst = super().burst(handle, steps)
        sampled_s = self.clock_s // period_s * period_s
        if sampled_s > start_s:
            share = (sampled_s - start_s) / burst.time_s
            self.shown_j = self.total_j + share * burst.energy_j
        self.total_j += burst.energy_j
        if self.shown_j == shown_j:
            raise MeterFault("meter did not move")
        return Burst(steps, self.shown_j - shown_j, burst.time_s)


class Faulty(FakeDevice):
    """Some readings cannot be true: those of these tries, counted for each network."""

    def __init__(self, tries: Collection[int], of: Workload = JOBS[1][0]) -> None:
        super().__init__()
        self.tries, self.of = tries, of
        self.tried = 0

    def burst(self, handle: int, steps: int) -> Burst:
        if self.loaded[handle] == self.of:
            self.tried += 1
            if self.tried in self.tries:
                raise MeterFault("meter ran backwards by 3 J")
        return super().burst(handle, steps)


coarse = pytest.mark.parametrize("kind, size", [
    (Counting, 0.05), (Counting, 0.5), (Counting, 5.0), (Sampling, 0.1), (Sampling, 1.0),
])  # fmt: skip


AT_ONCE = Effort(warmup_s=0.0)  # one try, then the bursts that count
