"""Loaders under a meter: batches of one burst after the other, idle watts before."""

from __future__ import annotations

import pytest

from ampere.core.workloads import Workload
from ampere.devices.base import Loaded
from ampere.estimators.base import Cost
from ampere.sittings.effort import Effort
from ampere.sittings.loading import measure_loader
from fakes import FakeDevice


class LoaderDevice(FakeDevice):
    """A fake whose loader takes 10 ms and 40 mJ a batch, with two workers."""

    def load(self, workload: Workload) -> Loaded:
        made = super().load(workload)
        return Loaded(made.handle, workers=2, samples=32) if workload.loader else made

    def _once(self, workload: Workload) -> Cost:
        return Cost(0.04, 0.0, 0.01, 0.0) if workload.loader else super()._once(workload)


def test_batches_are_metered_until_they_repeat() -> None:
    device = LoaderDevice(noise=0.01)
    found = measure_loader(device, "data.py:make")
    assert found.energy_j == pytest.approx(0.04, rel=0.02)
    assert found.time_s == pytest.approx(0.01, rel=0.02)
    assert found.idle_w == pytest.approx(device.idle_w, rel=0.05)
    assert (found.workers, found.samples, found.busy) == (2, 32, 0.0)
    assert 0 < found.spread < 0.05
    assert found.repeats >= 6 and found.batches >= 50 * found.repeats * 0.9  # half a second each
    assert device.loaded == {}  # forgotten, as the idle workload before it
    assert [each.stage for each in device.seen] == ["idle", "loading"]


def test_a_restless_loader_is_metered_longer() -> None:
    calm = measure_loader(LoaderDevice(noise=0.001), "data.py:make")
    restless = measure_loader(LoaderDevice(noise=0.3), "data.py:make")
    assert (calm.repeats, restless.repeats) == (6, 15)


def test_short_efforts_stay_long_enough_for_a_loader() -> None:
    found = measure_loader(LoaderDevice(noise=0.01), "data.py:make", Effort(burst_s=0.01))
    assert found.batches / found.repeats >= 45
