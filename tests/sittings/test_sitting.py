"""A sitting on a machine that others use: what is found, what is refused, and what is kept."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.fingerprint import Fingerprint
from ampere.core.workloads import REFERENCE, Workload
from ampere.devices.base import Burst, Loaded
from ampere.errors import Busy, Crashed, DeviceError, JournalError, MeterError, OutOfMemory
from ampere.evaluation.measured import Measured
from ampere.meters.base import Provenance
from ampere.meters.surroundings import Evidence, Process, Watched
from ampere.records.failure import Cause
from ampere.records.measurement import Measurement, utc
from ampere.sittings import sitting
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit
from ampere.sittings.measure import measure
from ampere.sittings.reference import take_reference
from fakes import EPOCH_S, FakeDevice, plain_model, total

from .devices import JOBS, NOMINAL, Job, errors

Schedule = Callable[[float], float]
FOUR: list[Job] = [*JOBS, (Workload(plain_model(24, 8)), plain_model(24, 8))]
RESTLESS = Effort(min_rounds=6, max_rounds=12, target=1e-12)  # nobody settles before the cap


def never(clock_s: float) -> float:
    return 0.0


def during(start_s: float, end_s: float = math.inf, cores: float = 1.0) -> Schedule:
    """So many cores are busy from one moment of the device's clock to another."""
    return lambda clock_s: cores if start_s <= clock_s < end_s else 0.0


class Shared(FakeDevice):
    """A machine of two cores that others use by a schedule; that slows everything down.

    Args:
        others: Cores that other processes use at a moment.
        stolen: Cores that other virtual machines use.
        absent: Share of a burst in which the worker did not run.
        slower: What a step takes beside one busy core.
        provenance: Where its joules come from.
        noise: Relative standard deviation of every burst.
    """

    def __init__(
        self,
        others: Schedule = never,
        *,
        stolen: Schedule = never,
        absent: Schedule = never,
        slower: float = 1.5,
        provenance: Provenance = Provenance.MODELLED,
        noise: float = 0.0,
    ) -> None:
        def busy(clock_s: float) -> float:
            return others(clock_s) + stolen(clock_s) + absent(clock_s)

        super().__init__(drift=lambda clock_s: 1 + (slower - 1) * busy(clock_s), noise=noise)
        self.provenance = provenance
        self.others, self.stolen, self.absent = others, stolen, absent
        self.watched_s = 0.0

    def burst(self, handle: int, steps: int) -> Burst:
        start_s = self.clock_s
        burst = super().burst(handle, steps)
        return replace(burst, evidence=self.evidence(start_s, burst.time_s, burst.time_s))

    def watch(self, time_s: float) -> Watched:
        start_s = self.clock_s
        super().watch(time_s)
        self.watched_s += time_s
        busy = self.others(start_s)
        processes = (Process("stress", 4242, busy),) if busy else ()
        return Watched(time_s, self.evidence(start_s, time_s, 0.0), processes)

    def evidence(self, start_s: float, time_s: float, cpu_s: float) -> Evidence:
        return Evidence(
            cpu_s,
            2,
            absent_s=self.absent(start_s) * time_s if cpu_s else None,
            others_s=self.others(start_s) * time_s,
            stolen_s=self.stolen(start_s) * time_s,
        )


def start_of(round_: int, jobs: Sequence[Job] = JOBS, effort: Effort | None = None) -> float:
    """When this round begins on the clock of a device that nobody disturbs."""
    effort = replace(effort or Effort(), min_rounds=round_ + 1, max_rounds=round_ + 1)
    rows = measure(Shared(), jobs, NOMINAL, effort)
    return float(rows[0].bursts["at"][round_]) - EPOCH_S - 2e-3  # it is rounded


# --- disturbances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("provenance", [Provenance.MODELLED, Provenance.COUNTER])
@pytest.mark.parametrize("kind", ["others", "stolen"])
@pytest.mark.parametrize("time_s", [0.2, 0.5, 5.0])
def test_what_was_disturbed_is_taken_again_when_it_is_over(
    kind: str, time_s: float, provenance: Provenance
) -> None:
    start_s = start_of(3)
    device = Shared(**{kind: during(start_s, start_s + time_s)}, provenance=provenance)  # type: ignore[arg-type]
    rows = measure(device, JOBS, NOMINAL)
    assert max(errors(rows)) < 1e-12
    for row in rows:
        assert row.repeats == len(row.bursts["energy_j"]) == Effort().min_rounds
        assert row.bursts["retaken"] == 2  # this round, and the one before: 0.3 s
        assert "marks" not in row.bursts
        assert row.doubt == 0.0
        assert max(row.bursts["time_s"]) == min(row.bursts["time_s"])
        assert set(row.bursts["others_s"]) == {0.0}
        assert row.bursts["cores"] == 2
        assert Measurement.from_json(row.to_json()).bursts["retaken"] == 2
    assert device.clock_s > start_s + time_s
    assert not device.loaded


@pytest.mark.parametrize("provenance", [Provenance.MODELLED, Provenance.COUNTER])
@pytest.mark.parametrize("time_s", [0.02, 0.06, 0.15])
def test_a_short_spike_leaves_no_trace_wherever_it_falls(
    time_s: float, provenance: Provenance
) -> None:
    """The round in which it was noticed goes, and so does the one in which it began."""
    for part in range(5):
        start_s = start_of(4) + part * 0.025
        device = Shared(during(start_s, start_s + time_s), provenance=provenance)
        rows = measure(device, JOBS, NOMINAL)
        assert max(errors(rows)) < 0.015


def test_a_worker_that_was_stopped_for_a_moment_costs_one_round() -> None:
    start_s = start_of(5)
    rows = measure(Shared(absent=during(start_s, start_s + 0.05), slower=2.0), JOBS, NOMINAL)
    assert max(errors(rows)) < 1e-12
    assert [row.bursts["retaken"] for row in rows] == [1, 1, 1]


def test_several_disturbances_are_all_taken_again() -> None:
    start_s = start_of(3)
    spells = [during(start_s + 2 * i, start_s + 2 * i + 0.4) for i in range(3)]
    long = Effort(min_rounds=40, max_rounds=40)
    rows = measure(Shared(lambda clock_s: sum(s(clock_s) for s in spells)), JOBS, NOMINAL, long)
    assert max(errors(rows)) < 1e-12
    assert all(row.bursts["retaken"] >= 6 and row.repeats == 40 for row in rows)


def test_a_calm_device_has_nothing_to_take_again() -> None:
    device = Shared()
    for row in measure(device, JOBS, NOMINAL):
        assert "retaken" not in row.bursts
        assert "marks" not in row.bursts
    assert device.watched_s == 0.0


def test_a_device_that_is_busy_all_the_time_is_refused_with_names() -> None:
    device, kept = Shared(during(0.0)), []
    with pytest.raises(Busy, match=r"stress \(pid 4242\) takes 1\.00 of its 2 cores; end that"):
        measure(device, JOBS, NOMINAL, Effort(patience_s=3.0), keep=kept.append)
    assert kept == []
    assert 2.0 < device.watched_s < 4.0
    assert not device.loaded


class Restless(Shared):
    """One of its networks takes more and less by turns, and does not settle."""

    restless = JOBS[1][0]

    def burst(self, handle: int, steps: int) -> Burst:
        burst = super().burst(handle, steps)
        if self.loaded[handle] != self.restless:
            return burst
        factor = 1 + 0.09 * (-1) ** self.bursts[handle]
        return replace(burst, energy_j=factor * burst.energy_j, time_s=factor * burst.time_s)


def test_rows_that_were_whole_before_it_became_busy_are_kept() -> None:
    """Two have settled and gone; the third goes on, and has not enough without the busy rounds."""
    effort = Effort(min_rounds=8, max_rounds=30, target=1e-3)
    start_s = start_of(9)
    kept: list[Measurement] = []
    device = Restless(during(start_s))
    with pytest.raises(Busy, match="stress"):
        measure(device, JOBS, NOMINAL, replace(effort, patience_s=1.0), keep=kept.append)
    assert [row.layers for row in kept[:2]] == [JOBS[0][1], JOBS[2][1]]
    assert max(errors(kept[:2])) < 1e-12
    assert all(row.failed is None and row.repeats >= 8 for row in kept)
    assert not device.loaded


def test_one_that_has_enough_rounds_without_the_busy_ones_is_kept_too() -> None:
    effort = replace(RESTLESS, max_rounds=30, patience_s=1.0)
    kept: list[Measurement] = []
    device = Shared(during(start_of(14)), noise=1e-4)
    with pytest.raises(Busy):
        measure(device, JOBS, NOMINAL, effort, keep=kept.append)
    assert [row.layers for row in kept] == [layers for _, layers in JOBS]
    assert [row.repeats for row in kept] == [13, 13, 13]  # with the last one it began, perhaps
    assert max(errors(kept)) < 1e-3


def test_a_network_that_fails_while_others_disturb_it_is_told_once() -> None:
    start_s = start_of(0)
    device = Shared(during(start_s, start_s + 0.4))
    device._fails_to_run = (JOBS[1][0],)
    kept: list[Measurement] = []
    rows = measure(device, JOBS, NOMINAL, Effort(warmup_s=0.0), keep=kept.append)
    assert [row.failed is None for row in rows] == [True, False, True]
    assert len(kept) == 3
    assert max(errors([rows[0], rows[2]])) < 1e-12
    assert not device.loaded


# --- interruptions and limits ---------------------------------------------------------------------


class Interrupted(FakeDevice):
    """Something happens instead of a burst: the so-and-so-manieth of a workload."""

    def __init__(self, of: Workload, burst: int, error: BaseException) -> None:
        super().__init__(noise=1e-4)
        self.of, self.at, self.error = of, burst, error
        self.over = False

    def burst(self, handle: int, steps: int) -> Burst:
        if self.loaded[handle] == self.of and self.bursts[handle] + 1 == self.at:
            self.over = True
            raise self.error
        return super().burst(handle, steps)


AT_ONCE = replace(RESTLESS, warmup_s=0.0)  # one burst to warm up, the reference some more


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("round_", "kept"), [(0, 0), (3, 0), (5, 0), (6, 4), (9, 4)])
def test_ctrl_c_in_the_middle_of_a_batch_keeps_what_is_whole(
    number: int, round_: int, kept: int
) -> None:
    """So many rounds were whole, which is enough or not; this one is lost."""
    device = Interrupted(FOUR[number][0], 2 + round_, KeyboardInterrupt())
    rows: list[Measurement] = []
    with pytest.raises(KeyboardInterrupt):
        measure(device, FOUR, NOMINAL, AT_ONCE, keep=rows.append)
    assert [row.layers for row in rows] == [layers for _, layers in FOUR][:kept]
    assert all(row.repeats == round_ and row.failed is None for row in rows)
    assert max(errors(rows), default=0.0) < 1e-3
    assert len({row.sitting for row in rows}) == (1 if kept else 0)
    assert not device.loaded


def test_ctrl_c_loses_nothing_of_those_that_have_settled() -> None:
    class Stopped(Restless):
        def burst(self, handle: int, steps: int) -> Burst:
            if self.loaded[handle] == self.restless and self.bursts[handle] == 14:
                raise KeyboardInterrupt
            return super().burst(handle, steps)

    device, rows = Stopped(), []
    effort = Effort(min_rounds=5, max_rounds=30, target=1e-3, warmup_s=0.0)
    with pytest.raises(KeyboardInterrupt):
        measure(device, FOUR, NOMINAL, effort, keep=rows.append)
    assert [row.repeats for row in rows] == [5, 5, 5, 13]
    assert rows[-1].layers == JOBS[1][1]
    assert len({row.sitting for row in rows}) == 1


class Lost(Interrupted):
    """From then on it does not answer at all; its clock is on this side."""

    fingerprint_ = Fingerprint({"device": "fake"}, {"host": "nowhere"})

    @property
    def fingerprint(self) -> Fingerprint:  # type: ignore[override]
        if self.over:
            raise DeviceError("it is gone")
        return self.fingerprint_

    @fingerprint.setter
    def fingerprint(self, value: Fingerprint) -> None:
        """It is what it is."""


@pytest.mark.parametrize("error", [DeviceError("it is gone"), KeyboardInterrupt()])
def test_what_is_whole_is_kept_though_the_device_does_not_answer_any_more(
    error: BaseException,
) -> None:
    """A connection that is lost for good; a worker that ended with Ctrl-C."""
    device, rows = Lost(JOBS[2][0], 10, error), []
    with pytest.raises(type(error)):
        measure(device, JOBS, NOMINAL, AT_ONCE, keep=rows.append)
    assert [row.layers for row in rows] == [layers for _, layers in JOBS]
    assert [row.repeats for row in rows] == [8, 8, 8]


class Changing(FakeDevice):
    """Somebody plugs it out, and another one in, in the middle."""

    def __init__(self, start_s: float) -> None:
        super().__init__()
        self.start_s = start_s

    @property
    def fingerprint(self) -> Fingerprint:  # type: ignore[override]
        if self.clock_s > self.start_s:
            raise DeviceError("it is another one")
        return Fingerprint({"device": "fake"})

    @fingerprint.setter
    def fingerprint(self, value: Fingerprint) -> None:
        """It is what it is."""


def test_nothing_is_kept_of_a_device_that_became_another() -> None:
    """Who knows since when; the rows of the sittings before are there."""
    device, kept = Changing(start_of(4)), []
    with pytest.raises(DeviceError, match="it is another one"):
        measure(device, JOBS, NOMINAL, keep=kept.append)
    assert kept == []
    assert not device.loaded


@pytest.mark.parametrize(("rounds", "rows"), [(0, 0), (1, 0), (2, 0), (3, 3), (5, 3)])
def test_a_time_limit_ends_rounds_and_fewer_than_three_make_no_row(rounds: int, rows: int) -> None:
    effort = Effort(burst_s=0.3)  # long ones: it is the device's clock that counts
    device, kept = FakeDevice(), []
    limit = Limit(start_of(rounds, effort=effort))
    limit.watch(device)
    found = measure(device, JOBS, NOMINAL, effort, limit=limit, keep=kept.append)
    assert len(found) == len(kept) == rows
    assert [row.repeats for row in found] == [rounds] * rows
    assert max(errors(found), default=0.0) < 1e-12
    assert not device.loaded


def test_no_time_at_all_loads_nothing() -> None:
    device = FakeDevice()
    assert measure(device, JOBS, NOMINAL, limit=Limit(0.0)) == []
    assert device.seen == []


def test_who_asks_for_fewer_than_three_rounds_gets_them() -> None:
    effort = Effort(burst_s=0.3, min_rounds=2, max_rounds=9, target=1e-12)
    device = FakeDevice()
    limit = Limit(start_of(2, effort=effort))
    limit.watch(device)
    assert [row.repeats for row in measure(device, JOBS, NOMINAL, effort, limit=limit)] == [2] * 3


def test_a_limit_that_ends_while_a_busy_device_is_waited_for_is_a_refusal() -> None:
    start_s = start_of(4)
    device, kept = Shared(during(start_s)), []
    limit = Limit(start_s + 3.0)
    limit.watch(device)
    with pytest.raises(Busy, match="stress"):
        measure(device, JOBS, NOMINAL, limit=limit, keep=kept.append)
    assert device.clock_s < start_s + 4.0
    assert not device.loaded


def test_who_has_settled_leaves_and_the_others_go_on() -> None:
    order: list[int] = []

    class Ordered(Restless):
        def burst(self, handle: int, steps: int) -> Burst:
            order.append(handle)
            return super().burst(handle, steps)

    kept: list[Measurement] = []
    effort = Effort(min_rounds=4, max_rounds=9, target=1e-3)
    rows = measure(Ordered(), JOBS, NOMINAL, effort, keep=kept.append)
    assert [row.repeats for row in rows] == [4, 9, 4]
    assert [row.layers for row in kept] == [JOBS[0][1], JOBS[2][1], JOBS[1][1]]
    assert [row.layers for row in rows] == [layers for _, layers in JOBS]
    assert order[-27:] == [4, *[1, 2, 3, 4] * 4, *[2, 4] * 5]


# --- what rows state ------------------------------------------------------------------------------


def test_rows_of_one_call_share_a_sitting_and_another_call_has_another() -> None:
    device = FakeDevice()
    first, second = (measure(device, JOBS, NOMINAL) for _ in range(2))
    ((one,), (other,)) = ({row.sitting for row in rows} for rows in (first, second))
    assert re.fullmatch(r"[0-9a-f]{8}", one)
    assert one != other
    assert Measurement.from_json(first[0].to_json()).sitting == one


def test_one_that_only_fits_alone_has_a_sitting_of_its_own() -> None:
    class Small(FakeDevice):
        def load(self, workload: Workload) -> Loaded:
            if self.loaded and workload == JOBS[1][0]:
                raise OutOfMemory("out of memory")
            return super().load(workload)

    kept: list[Measurement] = []
    first, crowded, third = measure(Small(), JOBS, NOMINAL, keep=kept.append)
    assert crowded.failed is None
    assert max(errors([first, crowded, third])) < 1e-12
    assert first.sitting == third.sitting != crowded.sitting
    assert len(kept) == 3


def test_one_that_does_not_even_fit_alone_has_failed_once() -> None:
    kept: list[Measurement] = []
    rows = measure(FakeDevice(fails_to_load=[JOBS[1][0]]), JOBS, NOMINAL, keep=kept.append)
    assert rows[1].failed is not None
    assert rows[1].failed.cause is Cause.MEMORY
    assert len(kept) == 3


def test_when_follows_the_devices_own_clock() -> None:
    device = FakeDevice()
    device.clock_s = 86_400.0
    first = measure(device, JOBS, NOMINAL)
    assert {row.when for row in first} == {utc(device.now())} == {utc(EPOCH_S + device.clock_s)}
    device.clock_s += 3600.0
    later = measure(device, JOBS, NOMINAL)
    assert later[0].timestamp - first[0].timestamp == pytest.approx(3600, abs=3)
    for row in later:
        moments = row.bursts["at"]
        assert moments == sorted(moments)
        assert EPOCH_S + 90_000 < moments[0] < moments[-1] < device.now()


class Stumbling(FakeDevice):
    """These bursts of its reference take five times as long."""

    def __init__(self, *tries: int, slower: float = 5.0) -> None:
        super().__init__()
        self.tries, self.slower = tries, slower

    def burst(self, handle: int, steps: int) -> Burst:
        burst = super().burst(handle, steps)
        if self.loaded[handle] != REFERENCE or self.bursts[handle] not in self.tries:
            return burst
        return replace(
            burst, energy_j=self.slower * burst.energy_j, time_s=self.slower * burst.time_s
        )


@pytest.mark.parametrize("slower", [2.0, 5.0, 0.4])
def test_a_reference_that_stumbles_once_is_taken_again(slower: float) -> None:
    """It stands at the end of one round and at the beginning of the next: both say nothing."""
    device = Stumbling(15, slower=slower)
    rows = measure(device, JOBS, NOMINAL)
    assert max(errors(rows)) < 1e-12
    for row in rows:
        assert row.repeats == 8
        assert row.bursts["retaken"] == 2
        assert row.bursts["reference_time_s"] == pytest.approx([NOMINAL.time_s] * 8)
        assert row.bursts["energy_drift"] == [1.0] * 8
        assert "marks" not in row.bursts


def test_one_that_stumbles_a_little_is_believed() -> None:
    rows = measure(Stumbling(15, slower=1.5), JOBS, NOMINAL)  # with its neighbour, 25 %
    assert not any("retaken" in row.bursts for row in rows)
    assert max(errors(rows)) < 0.01


def at_paces(*paces: float) -> list[Measurement]:
    """The same networks in a sitting at each pace: everything follows the reference."""
    known: list[Measurement] = []
    for pace in paces:
        device = FakeDevice(drift=lambda clock_s, pace=pace: pace)
        known += measure(device, JOBS, NOMINAL, known=known)
    return known


KNOWN = at_paces(0.8, 1.0, 1.25, 1.0)


@pytest.mark.parametrize("pace", [0.5, 0.7, 1.4, 2.0, 4.0])
def test_a_pace_far_from_that_of_the_beginning_is_marked_and_its_correction_bounded(
    pace: float,
) -> None:
    most = min(max(pace, 1 / 1.6), 1.6)
    rows = measure(FakeDevice(drift=lambda clock_s: pace), JOBS, NOMINAL, known=KNOWN)
    for row in rows:
        true = total(row.layers)
        assert row.bursts["marks"] == ["pace"]
        assert row.energy_j * most == pytest.approx(pace * true.energy_j, rel=0.03)
        assert row.time_s * most == pytest.approx(pace * true.time_s, rel=0.03)
        (divided_by,) = {*row.bursts["energy_drift"], *row.bursts["drift"]}
        assert 1 / 1.6 - 1e-5 <= divided_by <= 1.6 + 1e-5
        assert Measurement.from_json(row.to_json()).bursts["marks"] == ["pace"]


@pytest.mark.parametrize("pace", [0.9, 1.25])
def test_a_pace_that_is_known_to_be_followed_is_divided_out(pace: float) -> None:
    rows = measure(FakeDevice(drift=lambda clock_s: pace), JOBS, NOMINAL, known=KNOWN)
    assert max(errors(rows)) < 0.02
    assert not any("marks" in row.bursts for row in rows)


@pytest.mark.parametrize("period_s", [0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("known", [(), KNOWN], ids=["nothing", "all follow"])
def test_moments_that_slow_everything_down_are_not_divided_out_twice(
    known: Sequence[Measurement], share: float, period_s: float
) -> None:
    """No burst was ever faster than the truth, nor the reference: nothing is far below it."""
    device = FakeDevice(drift=lambda clock_s: 1.5 if (clock_s / period_s) % 1 < share else 1.0)
    for row in measure(device, JOBS, NOMINAL, known=known):
        assert 0.78 < row.energy_j / total(row.layers).energy_j < 1.51


@pytest.mark.parametrize("pace", [0.4, 2.0])
def test_a_pace_that_changes_for_good_in_the_middle_does_not_go_on_for_ever(pace: float) -> None:
    start_s = start_of(5)
    device = FakeDevice(drift=lambda clock_s: pace if clock_s >= start_s else 1.0)
    rows = measure(device, JOBS, NOMINAL, RESTLESS)
    assert [row.repeats for row in rows] == [12] * 3
    for row in rows:
        true_j = total(row.layers).energy_j
        assert min(pace, 1.0) * true_j <= 1.0001 * row.energy_j
        assert row.energy_j <= 1.0001 * max(pace, 1.0) * true_j
        assert 0 < row.bursts["retaken"] <= RESTLESS.max_rounds
    assert not device.loaded


@pytest.mark.parametrize(
    ("jump_s", "marks"),
    [(0.0, None), (0.5, None), (-0.5, None), (2.0, ["clock"]), (-3600.0, ["clock"])],
)
def test_a_clock_that_is_set_in_the_middle_is_marked(
    jump_s: float, marks: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_s = start_of(4)
    device = FakeDevice()

    def clock() -> float:
        return 1e9 + time.monotonic() + (jump_s if device.clock_s > start_s else 0.0)

    clocks = SimpleNamespace(time=clock, monotonic=time.monotonic)
    monkeypatch.setattr(sitting, "time", clocks)
    rows = measure(device, JOBS, NOMINAL)
    assert [row.bursts.get("marks") for row in rows] == [marks] * 3
    assert max(errors(rows)) < 1e-12


class Plugged(FakeDevice):
    """Its power comes from here, and from a moment on from there."""

    def __init__(self, before: str | None, after: str | None, start_s: float) -> None:
        super().__init__()
        self.before, self.after, self.start_s = before, after, start_s

    @property
    def fingerprint(self) -> Fingerprint:  # type: ignore[override]
        source = self.before if self.clock_s < self.start_s else self.after
        return Fingerprint({"device": "fake"}, {"power_source": source} if source else {})

    @fingerprint.setter
    def fingerprint(self, value: Fingerprint) -> None:
        """It is what it is."""


@pytest.mark.parametrize(
    ("before", "after", "marks"),
    [
        ("mains", "battery", ["power"]),
        ("battery", "mains", ["power"]),
        ("mains", "mains", None),
        (None, None, None),
        ("mains", "unknown", None),  # a file that could not be read for once
        ("unknown", "battery", None),
    ],
)
def test_a_cable_that_is_plugged_in_or_out_is_marked(
    before: str | None, after: str | None, marks: list[str] | None
) -> None:
    rows = measure(Plugged(before, after, start_of(4)), JOBS, NOMINAL)
    assert [row.bursts.get("marks") for row in rows] == [marks] * 3


# --- a busy machine that is accepted --------------------------------------------------------------

ACCEPTING = Effort(accept_busy=True)


@pytest.mark.parametrize("provenance", [Provenance.MODELLED, Provenance.COUNTER])
def test_what_was_accepted_is_marked_and_doubted(provenance: Provenance) -> None:
    device = Shared(during(0.0), slower=1.2, provenance=provenance)
    for row in measure(device, JOBS, NOMINAL, ACCEPTING):
        assert row.bursts["marks"] == ["busy"]
        assert row.doubt > 0
        assert row.error >= row.doubt
        assert "retaken" not in row.bursts
        assert row.bursts["others_s"] == pytest.approx(
            [row.bursts["steps"] * value for value in row.bursts["time_s"]], rel=1e-4
        )
        again = Measurement.from_json(row.to_json())
        assert (again.doubt, again.bursts["marks"]) == (row.doubt, ["busy"])
    assert device.watched_s == 0.0


def test_a_calm_machine_is_not_doubted_though_it_would_be_accepted() -> None:
    for row in measure(Shared(), JOBS, NOMINAL, ACCEPTING):
        assert row.doubt == 0.0
        assert "marks" not in row.bursts


def within(row: Measurement, true_j: float) -> bool:
    low_j, high_j = Measured.of([row], FakeDevice().fingerprint).energy_j_interval
    return low_j <= true_j * (1 + 1e-9) and true_j <= high_j * (1 + 1e-9)


def every_so_often(share: float) -> Schedule:
    """A core is busy for this share of each 0.3 s."""
    return lambda clock_s: 1.0 if (clock_s / 0.3) % 1 < share else 0.0


slowdowns = given(
    slower=st.floats(1.0, 1.9),
    share=st.sampled_from([1.0, 0.8, 0.5, 0.2]),
    provenance=st.sampled_from([Provenance.MODELLED, Provenance.COUNTER]),
)


@slowdowns
def test_the_truth_lies_in_the_interval_of_what_was_accepted(
    slower: float, share: float, provenance: Provenance
) -> None:
    """Beside a core that was busy all the time, or only in some of the bursts."""
    device = Shared(every_so_often(share), slower=slower, provenance=provenance)
    for row in measure(device, JOBS, NOMINAL, ACCEPTING):
        assert within(row, total(row.layers).energy_j)


@slowdowns
def test_so_it_does_where_the_reference_is_known_to_be_followed(
    slower: float, share: float, provenance: Provenance
) -> None:
    device = Shared(every_so_often(share), slower=slower, provenance=provenance)
    for row in measure(device, JOBS, NOMINAL, ACCEPTING, known=KNOWN):
        assert within(row, total(row.layers).energy_j)


@given(st.floats(0.1, 1.0), st.floats(0.0, 0.95))
def test_fewer_busy_cores_may_have_cost_less(cores: float, cost: float) -> None:
    """With all of them busy, up to half of what a step could do."""
    slower = 1 / (1 - cost * cores / 2)
    device = Shared(during(0.0, cores=cores), slower=1 + (slower - 1) / cores)
    for row in measure(device, JOBS, NOMINAL, ACCEPTING):
        assert within(row, total(row.layers).energy_j)


@given(st.floats(0.15, 0.9))
def test_so_it_does_where_the_worker_was_kept_from_running(absent: float) -> None:
    device = Shared(absent=during(0.0, cores=absent), slower=1 + 1 / (1 - absent))
    for row in measure(device, JOBS, NOMINAL, ACCEPTING):
        assert "busy" in row.bursts["marks"]
        assert within(row, total(row.layers).energy_j)


# --- nothing stays loaded -------------------------------------------------------------------------

ERRORS = [KeyboardInterrupt(), DeviceError("it is gone"), MeterError("it does not answer"),
          Crashed("it crashed"), MemoryError()]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("of", [JOBS[0][0], JOBS[1][0], REFERENCE])
@pytest.mark.parametrize("burst", [1, 2, 9])
def test_nothing_stays_loaded_whatever_happens_in_a_burst(
    of: Workload, burst: int, error: BaseException
) -> None:
    """The first is to warm up, the second warms up or counts, the ninth counts."""
    device = Interrupted(of, burst, error)
    try:
        measure(device, JOBS, NOMINAL, Effort(min_rounds=12, max_rounds=12, warmup_s=0.0))
    except BaseException as raised:
        assert isinstance(raised, (type(error), DeviceError))
    assert not device.loaded


@pytest.mark.parametrize("of", [JOBS[0][0], JOBS[2][0], REFERENCE])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), DeviceError("it is gone")])
def test_nothing_stays_loaded_whatever_happens_while_loading(
    of: Workload, error: BaseException
) -> None:
    class Breaking(FakeDevice):
        def load(self, workload: Workload) -> Loaded:
            if workload == of:
                raise error
            return super().load(workload)

    device = Breaking()
    with pytest.raises(type(error)):
        measure(device, JOBS, NOMINAL)
    assert not device.loaded


def test_nothing_stays_loaded_where_rows_cannot_be_written() -> None:
    def full(row: Measurement) -> None:
        raise JournalError("the disk is full")

    device = FakeDevice()
    with pytest.raises(JournalError, match="the disk is full"):
        measure(device, JOBS, NOMINAL, keep=full)
    assert not device.loaded


def test_nothing_stays_loaded_where_there_is_no_time() -> None:
    device = FakeDevice()
    limit = Limit(0.2)
    limit.watch(device)
    assert measure(device, JOBS, NOMINAL, limit=limit) == []
    assert not device.loaded


@pytest.mark.parametrize("start_s", [0.0, 0.3])
def test_nothing_stays_loaded_where_no_scale_can_be_made(start_s: float) -> None:
    """Busy while it should idle, or while the reference runs."""
    device = Shared(during(start_s))
    with pytest.raises(Busy, match="stress"):
        take_reference(device, Effort(patience_s=1.0))
    assert not device.loaded


def test_a_scale_is_not_made_beside_others() -> None:
    device = Shared(during(0.3, 2.0))
    found = take_reference(device)
    assert found.time_s == pytest.approx(NOMINAL.time_s, rel=1e-12)
    assert found.energy_j == pytest.approx(NOMINAL.energy_j, rel=1e-12)
    assert found.idle_w == pytest.approx(NOMINAL.idle_w, rel=1e-12)
    assert device.clock_s > 2.0
