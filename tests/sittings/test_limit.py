"""Limit: seconds of our clock or of the device's own, whichever is ahead."""

from __future__ import annotations

import math
import time

import pytest

from ampere.core.workloads import REFERENCE
from ampere.sittings.limit import Limit
from ampere.sittings.measure import measure
from ampere.sittings.reference import take_reference
from fakes import FakeDevice

from .devices import JOBS, NOMINAL


class Clock:
    """Our clock, which goes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 50.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_without_a_limit_there_is_always_time(clock: Clock) -> None:
    limit = Limit(began_s=clock.now_s)
    clock.now_s += 1e9
    assert limit.left_s == math.inf
    assert limit.spent_s == 1e9


def test_it_counts_from_when_it_was_given(clock: Clock) -> None:
    limit = Limit(60.0, began_s=time.monotonic())
    assert (limit.spent_s, limit.left_s) == (0.0, 60.0)
    clock.now_s += 45.0
    assert (limit.spent_s, limit.left_s) == (45.0, 15.0)
    clock.now_s += 45.0
    assert (limit.spent_s, limit.left_s) == (90.0, -30.0)


def test_it_may_have_begun_before(clock: Clock) -> None:
    assert Limit(60.0, began_s=clock.now_s - 20.0).left_s == 40.0


def test_it_begins_now_by_itself() -> None:
    before_s = time.monotonic()
    limit = Limit(10.0)
    assert before_s <= limit.began_s <= time.monotonic()
    assert 9.0 < limit.left_s <= 10.0


def test_a_device_that_spends_seconds_nobody_waits_for_is_ahead(clock: Clock) -> None:
    device = FakeDevice()
    device.clock_s = 500.0  # before it was watched: that is nobody's
    limit = Limit(60.0, began_s=clock.now_s)
    limit.watch(device)
    assert limit.spent_s == 0.0
    device.clock_s += 40.0
    clock.now_s += 3.0
    assert limit.spent_s == pytest.approx(40.0)
    assert limit.left_s == pytest.approx(20.0)


def test_our_own_clock_may_be_ahead(clock: Clock) -> None:
    """Starting and calibrating, and whatever the device does not count."""
    device = FakeDevice()
    limit = Limit(60.0, began_s=clock.now_s)
    clock.now_s += 30.0
    limit.watch(device)
    device.clock_s += 10.0
    assert limit.spent_s == 30.0


def test_the_device_that_was_watched_first_counts(clock: Clock) -> None:
    first, second = FakeDevice(), FakeDevice()
    limit = Limit(60.0, began_s=clock.now_s)
    limit.watch(first)
    first.clock_s += 5.0
    limit.watch(first)  # once more begins nothing anew
    limit.watch(second)
    second.clock_s += 50.0
    assert limit.spent_s == pytest.approx(5.0)


def test_everything_counts_the_scale_and_the_networks_alike() -> None:
    device = FakeDevice()
    limit = Limit(1e6)
    limit.watch(device)
    take_reference(device, limit=limit)
    scale_s = limit.spent_s
    assert scale_s == pytest.approx(device.clock_s, abs=1e-3)
    measure(device, JOBS, NOMINAL, limit=limit)
    assert limit.spent_s == pytest.approx(device.clock_s, abs=1e-3)
    assert limit.spent_s > scale_s > 0.0


def test_what_is_over_begins_nothing() -> None:
    device = FakeDevice()
    limit = Limit(5.0)
    limit.watch(device)
    device.watch(6.0)
    assert measure(device, JOBS, NOMINAL, limit=limit) == []
    assert REFERENCE not in device.seen
