"""Comebacks: some networks are measured again at the end, and again after pauses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ampere.acquisition.families import Network
from ampere.acquisition.loop import (
    NETWORK_S,
    Comebacks,
    open_journal,
    rest,
    resume,
    run_profiler,
)
from ampere.acquisition.progress import Event
from ampere.core.workloads import Workload
from ampere.meters.surroundings import Watched
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from ampere.records.repeats import repeats_of
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit
from fakes import FakeDevice, plain_model, total

QUICK = Effort(min_rounds=4, max_rounds=4)
MODELS = [plain_model(width, 8) for width in (4, 8, 12, 16, 20, 24)]
NETWORKS = [Network(f"network {i}", Workload(layers), layers) for i, layers in enumerate(MODELS)]


class Listed:
    """Asks for the networks of a list, one after the other."""

    by_calls = False
    state = ""

    def __init__(self, networks: Sequence[Network] = NETWORKS) -> None:
        self.open = list(networks)
        self.told: list[Measurement] = []
        self.cut_short = self.ended = False

    def ask(self, n: int = 1, affordable: float = float("inf")) -> Sequence[Network]:
        return self.open[: max(0, int(min(n, affordable)))]

    def tell(self, measurement: Measurement) -> None:
        self.told.append(measurement)
        self.open = [each for each in self.open if each.layers != measurement.layers]

    def end_phase(self) -> None:
        self.cut_short = self.ended = True

    @property
    def should_stop(self) -> bool:
        return self.ended or not self.open

    @property
    def remaining(self) -> int:
        return len(self.open)


class Resting(FakeDevice):
    """Remembers how long it was left alone, and after how many loads."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.rests: list[tuple[int, float]] = []

    def watch(self, time_s: float) -> Watched:
        self.rests.append((len(self.seen), time_s))
        return super().watch(time_s)


def profile(
    path: Path, device: FakeDevice, profiler: Listed | None = None, **settings: Any
) -> list[Measurement]:
    """The rows that a profile wrote down."""
    profiler = profiler or Listed()
    journal, _ = open_journal(path, device)
    with journal:
        before = len(journal.measurements)
        resume(profiler, journal.measurements)
        run_profiler(profiler, device, journal, effort=QUICK, **settings)
    return read_journal(path)[1][before:]


def test_two_networks_are_measured_again_at_the_end(tmp_path: Path) -> None:
    device, profiler = Resting(), Listed()
    rows = profile(tmp_path / "p.ampere", device, profiler)
    assert [row.layers for row in rows] == [*MODELS, *MODELS[:2]]
    assert profiler.told == rows
    assert device.rests == []  # at once
    first, again = rows[:4], rows[-2:]
    assert len({row.sitting for row in again}) == 1
    assert {row.sitting for row in again}.isdisjoint({row.sitting for row in first})
    for row in rows:
        assert row.energy_j == pytest.approx(total(row.layers).energy_j)
    assert not device.loaded


def test_so_it_is_known_how_they_repeat(tmp_path: Path) -> None:
    rows = profile(tmp_path / "p.ampere", FakeDevice(noise=0.02, seed=2))
    found = repeats_of(rows)
    assert found.degrees == 2
    assert found.between is not None
    assert 0 < found.between < 0.1


@pytest.mark.parametrize(("sittings", "pauses"), [(0, 0), (1, 0), (2, 1), (4, 3)])
@pytest.mark.parametrize("pause_s", [45.0, 180.0])
def test_after_each_pause_they_are_measured_once_more(
    sittings: int, pauses: int, pause_s: float, tmp_path: Path
) -> None:
    device = Resting()
    rows = profile(tmp_path / "p.ampere", device, comebacks=Comebacks(sittings, pause_s))
    assert [row.layers for row in rows] == [*MODELS, *MODELS[:2] * sittings]
    assert sum(time_s for _, time_s in device.rests) == pytest.approx(pauses * pause_s)
    assert len({loads for loads, _ in device.rests}) == pauses  # in so many places
    assert len({row.sitting for row in rows if row.layers == MODELS[0]}) == 1 + sittings
    moments = [row.timestamp for row in rows if row.layers == MODELS[0]][1:]
    for before_s, after_s in itertools.pairwise(moments):
        assert pause_s <= after_s - before_s + 1 < pause_s + 10  # whole seconds


def test_the_pause_is_of_the_devices_own_clock() -> None:
    device = Resting()
    rest(device, 100.0)
    assert device.clock_s == pytest.approx(100.0)
    assert [time_s for _, time_s in device.rests] == pytest.approx([30.0, 30.0, 30.0, 10.0])
    rest(device, 0.0)
    assert len(device.rests) == 4


def test_a_device_that_rests_for_longer_than_it_was_asked_to_is_not_waited_for_twice() -> None:
    class Slow(Resting):
        def watch(self, time_s: float) -> Watched:
            return super().watch(2 * time_s)

    device = Slow()
    rest(device, 50.0)
    assert device.clock_s == pytest.approx(60.0)


def test_as_many_networks_as_there_are_and_as_are_wanted(tmp_path: Path) -> None:
    rows = profile(tmp_path / "one.ampere", FakeDevice(), Listed(NETWORKS[:1]))
    assert [row.layers for row in rows] == [MODELS[0]] * 2
    rows = profile(tmp_path / "four.ampere", FakeDevice(), comebacks=Comebacks(networks=4))
    assert [row.layers for row in rows] == [*MODELS, *MODELS[:4]]
    rows = profile(tmp_path / "none.ampere", FakeDevice(), comebacks=Comebacks(networks=0))
    assert [row.layers for row in rows] == MODELS


def test_networks_that_failed_are_not_come_back_to(tmp_path: Path) -> None:
    device = FakeDevice(fails_to_load=[NETWORKS[0].workload])
    rows = profile(tmp_path / "p.ampere", device)
    good = [row for row in rows if row.failed is None]
    assert [row.layers for row in good[-2:]] == MODELS[1:3]
    assert sum(row.layers == MODELS[0] for row in rows) == 1
    device = FakeDevice(fails_to_load=[network.workload for network in NETWORKS])
    rows = profile(tmp_path / "all.ampere", device, comebacks=Comebacks(2))
    assert len(rows) == 6


# --- without time ---------------------------------------------------------------------------------


def spent(tmp_path: Path, **settings: Any) -> float:
    """What a profile takes on the device's clock; the scale of its journal is not in it."""
    device = FakeDevice()
    profiler = Listed()
    journal, _ = open_journal(tmp_path / "spent.ampere", device)
    began_s = device.clock_s
    with journal:
        run_profiler(profiler, device, journal, effort=QUICK, **settings)
    return device.clock_s - began_s


def test_there_is_no_comeback_without_time(tmp_path: Path) -> None:
    needed_s = spent(tmp_path, comebacks=Comebacks(0))
    enough = Limit(needed_s + 2 * NETWORK_S + 1.0)
    rows = profile(tmp_path / "enough.ampere", FakeDevice(), Unhurried(), limit=enough)
    assert [row.layers for row in rows] == [*MODELS, *MODELS[:2]]
    short = Limit(needed_s + 2 * NETWORK_S - 1.0)
    rows = profile(tmp_path / "short.ampere", FakeDevice(), Unhurried(), limit=short)
    assert [row.layers for row in rows] == MODELS


class Unhurried(Listed):
    """Asks for what it wants, whatever there is time for."""

    def ask(self, n: int = 1, affordable: float = float("inf")) -> Sequence[Network]:
        return super().ask(n)


def test_nor_is_a_pause_begun_that_there_is_no_time_for(tmp_path: Path) -> None:
    needed_s = spent(tmp_path, comebacks=Comebacks(1))
    device = Resting()
    comebacks = Comebacks(3, pause_s=100.0)
    limit = Limit(needed_s + 100.0 + 2 * NETWORK_S + 20.0)
    rows = profile(tmp_path / "p.ampere", device, Unhurried(), limit=limit, comebacks=comebacks)
    assert [row.layers for row in rows] == [*MODELS, *MODELS[:2] * 2]
    assert sum(time_s for _, time_s in device.rests) == pytest.approx(100.0)
    assert limit.left_s > 0


def test_none_follows_a_run_that_measured_nothing(tmp_path: Path) -> None:
    path, device = tmp_path / "p.ampere", Resting()
    assert len(profile(path, device)) == 8
    loads = len(device.seen)
    assert profile(path, device, comebacks=Comebacks(2)) == []
    assert len(device.seen) == loads
    assert device.rests == []


def test_a_resumed_run_comes_back_to_what_it_measured_itself(tmp_path: Path) -> None:
    path = tmp_path / "p.ampere"
    profile(path, FakeDevice(), Listed(NETWORKS[:3]))
    rows = profile(path, FakeDevice(), Listed())
    assert [row.layers for row in rows] == [*MODELS[3:], *MODELS[3:5]]


def test_no_joules_are_left_for_it_where_they_are_used_up(tmp_path: Path) -> None:
    rows = profile(tmp_path / "p.ampere", FakeDevice(), energy_limit_j=1e-9)
    assert [row.layers for row in rows] == MODELS[:4]


# --- what is told ---------------------------------------------------------------------------------


def test_it_is_told_what_goes_on(tmp_path: Path) -> None:
    events: list[Event] = []
    rows = profile(
        tmp_path / "p.ampere", FakeDevice(), comebacks=Comebacks(2, 60.0), watch=events.append
    )
    doing = [event.doing for event in events]
    assert doing[-4:] == [
        "2 networks again",
        "waiting, to come back once more",
        "2 networks again",
        "done",
    ]
    assert [event.done for event in events] == sorted(event.done for event in events)
    assert events[-1] == Event("done", len(rows), len(rows), 0.0)
    waiting = events[-3]
    assert (waiting.done, waiting.total, waiting.seconds_left) == (8, 10, 60.0)


def test_what_is_left_is_told_by_our_clock_where_nobody_waits_for_the_device(
    tmp_path: Path,
) -> None:
    events: list[Event] = []
    device = FakeDevice()
    begun_s = device.now()
    profile(tmp_path / "p.ampere", device, watch=events.append)
    assert device.now() - begun_s > 1.0
    assert events[1].done and events[1].seconds_left < 1.0


def test_an_interruption_while_it_waits_keeps_everything(tmp_path: Path) -> None:
    class Interrupted(FakeDevice):
        def watch(self, time_s: float) -> Watched:
            raise KeyboardInterrupt

    path, device = tmp_path / "p.ampere", Interrupted()
    with pytest.raises(KeyboardInterrupt):
        profile(path, device, comebacks=Comebacks(2))
    assert len(read_journal(path)[1]) == 8
    assert not device.loaded
