"""Quiet: what others had of the cores, by hand; rounds that are taken back, waits and refusals."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ampere.devices.base import Burst
from ampere.errors import Busy, DeviceError
from ampere.meters.base import Provenance
from ampere.meters.surroundings import Evidence, Process, Watched
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit
from ampere.sittings.quiet import LIMIT, LOOK_S, Guard, Load, counts_others, load_of
from fakes import FakeDevice

ROUND_S = 0.125  # three of them are looked at together


def seen(
    time_s: float = ROUND_S,
    *,
    threads: float = 1.0,
    cores: int = 2,
    others: float | None = 0.0,
    stolen: float | None = 0.0,
    absent: float | None = 0.0,
    held: float | None = None,
) -> Burst:
    """A burst beside which so many cores were busy with something else."""

    def seconds(share: float | None) -> float | None:
        return None if share is None else share * time_s

    evidence = Evidence(
        threads * time_s,
        cores,
        absent_s=seconds(absent),
        others_s=seconds(others),
        stolen_s=seconds(stolen),
        held_s=seconds(held),
    )
    return Burst(10, 1.0, time_s, evidence=evidence)


def split(bursts: int, others_s: float, time_s: float = 1.0) -> list[Burst]:
    """A second in so many bursts, of which others had so many seconds of a core, evenly."""
    return [seen(time_s / bursts, others=others_s / time_s) for _ in range(bursts)]


class Watching(FakeDevice):
    """What it does while nothing is asked of it: so many cores are busy, look by look."""

    def __init__(
        self,
        *looks: float,
        provenance: Provenance = Provenance.MODELLED,
        cores: int = 2,
        stolen: float = 0.0,
        processes: Sequence[Process] = (),
    ) -> None:
        super().__init__()
        self.provenance = provenance
        self.looks, self.watched = looks, 0
        self.cores, self.stolen, self.processes = cores, stolen, tuple(processes)

    def watch(self, time_s: float) -> Watched:
        """The last of the looks goes on for ever."""
        super().watch(time_s)
        others = self.looks[min(self.watched, len(self.looks) - 1)]
        self.watched += 1
        evidence = Evidence(
            0.0, self.cores, others_s=others * time_s, stolen_s=self.stolen * time_s
        )
        return Watched(time_s, evidence, self.processes)


def guard(device: FakeDevice | None = None, patience_s: float = 30.0, **settings: bool) -> Guard:
    return Guard(device or Watching(0.0), Effort(patience_s=patience_s, **settings))


def taken_back(watching: Guard, rounds: Sequence[Burst]) -> list[int]:
    """How many rounds each of these costs, one burst a round."""
    return [watching.disturbed([burst]) for burst in rounds]


CALM = seen()
BUSY = seen(others=1.0)


# --- the load -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "cores", "of_free", "of_used"),
    [
        (1, 1, 0.5, 0.5),
        (1, 2, 0.5, 0.5),
        (1, 8, 0.5 / 7, 0.5),
        (2, 2, 0.25, 0.25),
        (2, 3, 0.25, 0.25),
        (2, 8, 0.5 / 6, 0.25),
        (4, 8, 0.125, 0.125),
        (0.1, 2, 0.5, 0.5),  # hardly a core of ours: a device that idles
        (0, 1, 0.5, 0.5),
    ],
)
def test_half_a_core_of_others_is_a_share_of_what_they_may_use(
    threads: float, cores: int, of_free: float, of_used: float
) -> None:
    """Where the meter counts the joules of others, too, it is a share of what steps use."""
    burst = seen(1.0, threads=threads, cores=cores, others=0.5)
    assert load_of([burst], whole_machine=False).others == pytest.approx(of_free)
    assert load_of([burst], whole_machine=True).others == pytest.approx(of_used)


@pytest.mark.parametrize(("threads", "expected"), [(1, 0.2), (2, 0.1)])
def test_stolen_cores_are_a_share_of_those_that_steps_use(threads: int, expected: float) -> None:
    burst = seen(1.0, threads=threads, cores=8, stolen=0.2)
    for whole_machine in (False, True):
        load = load_of([burst], whole_machine=whole_machine)
        assert load.stolen == pytest.approx(expected)
        assert load.others == 0.0
        assert load.is_busy


@pytest.mark.parametrize(
    ("wanted", "used", "cores", "others", "crowded"),
    [
        (2, 2.0, 2, 1.0, True),
        (2, 0.4, 2, 1.0, True),  # they waited for each other most of the time
        (2, 2.0, 2, 0.01, False),
        (2, 2.0, 4, 1.0, False),
        (2, 2.0, 4, 2.0, True),
        (1, 1.0, 2, 2.0, False),  # a single thread waits for nobody
        (1, 1.9, 2, 1.0, True),  # a library has threads of its own
    ],
)
def test_threads_are_crowded_where_others_need_the_cores_that_they_want(
    wanted: int, used: float, cores: int, others: float, crowded: bool
) -> None:
    bursts = [seen(1.0, threads=used, cores=cores, others=others)]
    assert load_of(bursts, whole_machine=False, threads=wanted).is_crowded is crowded


def test_absence_is_a_share_of_the_time_and_is_not_busy() -> None:
    load = load_of([seen(1.0, absent=0.3), seen(3.0)], whole_machine=False)
    assert load.absent == pytest.approx(0.3 / 4)
    assert not load.is_disturbing
    load = load_of([seen(1.0, absent=0.3)], whole_machine=False)
    assert load.is_disturbing
    assert not load.is_busy


def test_bursts_are_added_up_and_count_by_their_time() -> None:
    bursts = [seen(1.0, others=0.9), seen(3.0, others=0.1), Burst(1, 1.0, 50.0)]
    load = load_of(bursts, whole_machine=True)
    assert load.others == pytest.approx((0.9 + 0.3) / 4)


@pytest.mark.parametrize(
    "bursts",
    [
        [],
        [Burst(1, 1.0, 1.0)],
        [seen(0.0)],
        [seen(1.0, others=None, stolen=None, absent=None)],
    ],
)
def test_who_tells_nothing_is_taken_for_quiet(bursts: list[Burst]) -> None:
    load = load_of(bursts, whole_machine=True)
    assert (load.others, load.stolen, load.absent) == (0.0, 0.0, 0.0)
    assert not load.is_disturbing


@pytest.mark.parametrize("bursts", [2, 3, 4, 5, 10])
@pytest.mark.parametrize("burst_s", [0.001, 0.005, 0.03, 0.1])
@pytest.mark.parametrize("whole_machine", [False, True])
def test_a_single_tick_in_short_bursts_is_not_busy(
    bursts: int, burst_s: float, whole_machine: bool
) -> None:
    """A round has two bursts at least; a kernel that counts in ticks sees 10 ms or nothing."""
    hit = seen(burst_s, others=0.01 / burst_s)
    load = load_of([hit, *[seen(burst_s)] * (bursts - 1)], whole_machine=whole_machine)
    assert load.others > 0
    assert not load.is_busy


@pytest.mark.parametrize("bursts", [1, 2, 8, 16, 33])
def test_a_tenth_of_a_core_all_the_time_is_busy_for_a_meter_of_the_whole_machine(
    bursts: int,
) -> None:
    one_second = split(bursts, others_s=0.1)
    assert load_of(one_second, whole_machine=True).is_busy


def test_a_tenth_of_a_core_among_many_is_not_where_only_our_joules_count() -> None:
    bursts = [seen(1.0, cores=8, others=0.1)]
    assert not load_of(bursts, whole_machine=False).is_busy
    assert load_of(bursts, whole_machine=True).is_busy
    assert load_of([seen(1.0, cores=2, others=0.1)], whole_machine=False).is_busy


def test_the_allowance_for_rounding_by_hand() -> None:
    """A difference of two rounded counts has a standard deviation of 1/√6 ticks."""
    load = load_of(split(6, others_s=0.0), whole_machine=True)
    assert load.rounding == pytest.approx(2 * 0.01 * 1.0)
    assert Load(LIMIT + 0.019, 0.0, 0.0, load.rounding).is_busy is False
    assert Load(LIMIT + 0.021, 0.0, 0.0, load.rounding).is_busy is True


shares = st.floats(0.0, 8.0)
bursts_of_others = st.lists(
    st.builds(
        seen,
        st.floats(1e-3, 10.0),
        threads=st.floats(0.0, 8.0),
        cores=st.just(8),
        others=st.none() | shares,
        stolen=st.none() | shares,
        absent=st.none() | st.floats(0.0, 1.0),
    ),
    min_size=1,
    max_size=12,
)


@given(bursts_of_others, st.booleans())
def test_a_load_is_finite_and_never_below_nothing(bursts: list[Burst], whole_machine: bool) -> None:
    load = load_of(bursts, whole_machine=whole_machine)
    for value in (load.others, load.stolen, load.absent, load.rounding):
        assert math.isfinite(value)
        assert value >= 0


@given(bursts_of_others, st.floats(0.01, 4.0))
def test_more_of_others_is_never_less_busy(bursts: list[Burst], more: float) -> None:
    told = [burst for burst in bursts if burst.evidence and burst.evidence.others_s is not None]
    heavier = [
        seen(
            burst.time_s,
            threads=burst.evidence.cpu_s / burst.time_s,
            cores=8,
            others=(burst.evidence.others_s or 0.0) / burst.time_s + more,
        )
        for burst in told
        if burst.evidence
    ]
    lighter = load_of(told, whole_machine=False)
    load = load_of(heavier, whole_machine=False)
    assert load.others >= lighter.others


@given(bursts_of_others)
def test_a_meter_of_the_whole_machine_is_the_stricter_one(bursts: list[Burst]) -> None:
    strict, modelled = (load_of(bursts, whole_machine=whole) for whole in (True, False))
    assert strict.others >= modelled.others
    assert (strict.stolen, strict.absent) == (modelled.stolen, modelled.absent)


# --- rounds that are taken back -------------------------------------------------------------------


def test_a_quiet_device_loses_no_round() -> None:
    watching = guard()
    assert taken_back(watching, [CALM] * 20) == [0] * 20
    assert watching.waited_s == 0.0


def test_busy_from_the_start_costs_the_first_round() -> None:
    watching = guard()
    assert watching.disturbed([BUSY]) == 1
    assert watching.waited_s == ROUND_S
    assert watching.disturbed([BUSY]) == 1
    assert watching.waited_s == 2 * ROUND_S


def test_busy_in_the_second_half_costs_all_that_is_looked_at_together() -> None:
    assert taken_back(guard(), [CALM] * 6 + [BUSY]) == [0] * 6 + [3]
    assert taken_back(guard(), [CALM, BUSY]) == [0, 2]
    long = [seen(1.0), seen(1.0), seen(1.0, others=1.0)]
    assert taken_back(guard(), long) == [0, 0, 1]


def test_what_creeps_up_is_noticed_when_it_is_no_rounding_any_more() -> None:
    """A tenth of a core is one tick a round: in one or two of them it may be chance."""
    tenth = seen(others=0.096)
    watching = guard()
    assert taken_back(watching, [tenth] * 3) == [0, 0, 3]
    assert watching.waited_s == 3 * ROUND_S


def test_a_short_spike_is_forgotten_once_it_was_taken_back() -> None:
    watching = guard()
    assert taken_back(watching, [CALM, CALM, BUSY]) == [0, 0, 3]
    watching.wait()
    assert taken_back(watching, [CALM] * 10) == [0] * 10


def test_all_bursts_of_a_round_count() -> None:
    assert guard().disturbed([seen(0.03), seen(0.03), seen(0.03, others=1.0)]) == 1
    assert guard().disturbed([seen(0.03), seen(0.03), seen(0.03)]) == 0


def test_a_round_in_which_the_worker_was_stopped_is_taken_again_alone() -> None:
    watching = guard()
    assert taken_back(watching, [CALM, CALM, seen(absent=0.8), CALM]) == [0, 0, 1, 0]
    assert watching.waited_s == ROUND_S


@pytest.mark.parametrize(
    ("time_s", "absent_s", "costs"),
    [(0.1, 0.0119, 0), (0.1, 0.0121, 1), (0.01, 0.0029, 0), (0.01, 0.0031, 1), (1.0, 0.101, 0)],
)
def test_a_little_absence_is_usual(time_s: float, absent_s: float, costs: int) -> None:
    """A tenth of a burst, and two milliseconds on top of that."""
    assert guard().disturbed([seen(time_s, absent=absent_s / time_s)]) == costs


def test_one_burst_of_many_that_was_stopped_is_enough() -> None:
    stopped = seen(0.03, absent=0.5)
    assert guard().disturbed([*[seen(0.03)] * 9, stopped]) == 1


def test_stolen_cycles_are_busy_too() -> None:
    assert taken_back(guard(), [CALM, seen(stolen=0.4)]) == [0, 2]


def test_a_quota_that_is_used_up_shows_as_absence() -> None:
    assert taken_back(guard(), [CALM, seen(absent=0.5, held=0.5)]) == [0, 1]


@pytest.mark.parametrize(
    "burst", [Burst(10, 1.0, ROUND_S), seen(others=None, stolen=None, absent=None)]
)
def test_a_system_that_tells_nothing_is_believed(burst: Burst) -> None:
    watching = guard()
    assert taken_back(watching, [burst] * 10) == [0] * 10
    assert watching.disturbed([]) == 0


@pytest.mark.parametrize(
    ("provenance", "costs"),
    [
        (Provenance.COUNTER, 1),
        (Provenance.SENSOR, 1),
        (Provenance.BATTERY, 1),
        (Provenance.EXTERNAL, 1),
        (Provenance.MODELLED, 0),
        (Provenance.SIMULATED, 0),
    ],
)
def test_a_meter_of_the_whole_machine_is_disturbed_by_less(
    provenance: Provenance, costs: int
) -> None:
    burst = seen(1.0, cores=8, others=0.2)
    assert guard(Watching(0.0, provenance=provenance)).disturbed([burst]) == costs


@pytest.mark.parametrize(
    ("meter", "expected"),
    [("rapl", True), ("shelly", True), ("nvml", False), ("a lab's own", True)],
)
def test_a_meter_of_accelerators_alone_does_not_count_others(meter: str, expected: bool) -> None:
    device = Watching(0.0, provenance=Provenance.SENSOR)
    device.meter = {"name": meter, "settings": {}}
    assert counts_others(device) == expected
    assert guard(device).disturbed([seen(1.0, cores=8, others=0.2)]) == int(expected)
    device.provenance = Provenance.MODELLED
    assert not counts_others(device)


def test_who_accepts_it_never_loses_a_round() -> None:
    device = Watching(2.0)
    watching = guard(device, accept_busy=True)
    rounds = [BUSY, seen(absent=1.0), seen(stolen=1.0), CALM] * 3
    assert taken_back(watching, rounds) == [0] * 12
    assert (device.watched, watching.waited_s) == (0, 0.0)


# --- waiting, and refusing ------------------------------------------------------------------------

STRESS = Process("stress", 4242, 0.95)
ADVICE = (
    "; end that, wait, or measure all the same with --accept-busy"
    " (in Python Effort(accept_busy=True))"
)


@pytest.mark.parametrize("looks", [0, 1, 7])
def test_it_waits_until_the_device_is_calm_and_no_longer(looks: int) -> None:
    device = Watching(*[1.0] * looks, 0.0)
    watching = guard(device)
    watching.disturbed([BUSY])
    watching.wait()
    assert device.watched == looks + 1
    assert watching.waited_s == ROUND_S + (looks + 1) * LOOK_S


def test_that_it_waits_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    device = Watching(1.0, 1.0, 0.0, 1.0, 0.0, processes=[STRESS])
    watching = guard(device)
    with caplog.at_level(logging.WARNING, "ampere"):
        watching.wait()
        watching.wait()
    assert [record.getMessage() for record in caplog.records] == [
        "the device is busy: stress (pid 4242) takes 0.95 of its 2 cores: waiting for it to end"
    ]


def test_a_device_that_is_calm_already_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    device = Watching(0.0)
    guard(device).wait()
    assert device.watched == 1
    assert not caplog.records


def test_a_device_that_tells_nothing_is_not_waited_for() -> None:
    device = FakeDevice()
    guard(device).wait()
    assert device.clock_s == LOOK_S


def test_after_its_patience_it_refuses_and_says_who_it_was_and_what_to_do() -> None:
    device = Watching(1.0, processes=[STRESS, Process("cc1 plus", 7, 0.05), Process("x", 8, 0.01)])
    watching = guard(device, patience_s=1.0)
    watching.disturbed([BUSY])
    with pytest.raises(Busy) as refused:
        watching.wait()
    assert str(refused.value) == (
        "the device is busy: stress (pid 4242) takes 0.95, cc1 plus (pid 7) takes 0.05"
        f" of its 2 cores{ADVICE}"
    )
    assert isinstance(refused.value, DeviceError)
    assert device.watched == 5  # for what was left of the second, and to see who it is now
    assert watching.waited_s == ROUND_S + 5 * LOOK_S


def test_patience_is_for_the_whole_sitting() -> None:
    """One that is busy again and again is not waited for again and again."""
    device = Watching(0.0)
    watching = guard(device, patience_s=1.0)
    costs = 0
    with pytest.raises(Busy):
        while costs < 100:
            costs += watching.disturbed([BUSY])
            watching.wait()
    assert costs == 4  # a round and a look each: 0.375 s


@pytest.mark.parametrize(
    ("burst", "reason"),
    [
        (BUSY, "the device is busy: others had 100.0 % of its cores"),
        (seen(stolen=0.5), "the device is busy: others had 50.0 % of its cores"),
        (
            seen(absent=0.516),
            "steps were kept from running for 50.0 % of a burst: their process was stopped, shares"
            " its cores, or its quota is used up",
        ),
    ],
)
def test_what_was_over_when_it_looked_is_told_as_the_rounds_saw_it(
    burst: Burst, reason: str
) -> None:
    watching = guard(Watching(0.0), patience_s=0.0)
    watching.disturbed([burst])
    with pytest.raises(Busy) as refused:
        watching.wait()
    assert str(refused.value) == reason + ADVICE


@pytest.mark.parametrize(
    ("device", "who"),
    [
        (Watching(0.8), "other processes take 0.80 of its 2 cores"),
        (Watching(0.8, cores=1), "other processes take 0.80 of its 1 core"),
        (Watching(0.0, stolen=0.4), "other virtual machines take 0.40 of its 2 cores"),
        (
            Watching(0.9, stolen=0.4),
            "other processes take 0.90, other virtual machines take 0.40 of its 2 cores",
        ),
        (
            Watching(0.95, stolen=0.4, processes=[STRESS]),
            "stress (pid 4242) takes 0.95, other virtual machines take 0.40 of its 2 cores",
        ),
        (
            Watching(0.9, processes=[Process("many small ones", 1, 0.02)]),
            "other processes take 0.90 of its 2 cores",
        ),
    ],
)
def test_who_it_was_is_named_as_far_as_anybody_knows(device: Watching, who: str) -> None:
    with pytest.raises(Busy) as refused:
        guard(device, patience_s=0.0).wait()
    assert str(refused.value) == f"the device is busy: {who}{ADVICE}"


@given(st.floats(0.0, 0.2), st.floats(0.0, 0.2))
@example(0.045, 0.049)
def test_somebody_is_named_where_both_together_are_too_much(others: float, stolen: float) -> None:
    device = Watching(others, stolen=stolen)
    busy = load_of([seen(LOOK_S, others=others, stolen=stolen)], whole_machine=False).is_busy
    with pytest.raises(Busy) as refused:
        guard(device, patience_s=0.0).wait()
    assert bool(re.search(r"busy: other .* of its 2 cores", str(refused.value))) == busy


@pytest.mark.parametrize(("seconds", "looks"), [(1.0, 5), (0.1, 2), (0.0, 1)])
def test_a_limit_that_is_shorter_than_the_patience_ends_it(seconds: float, looks: int) -> None:
    device = Watching(1.0, processes=[STRESS])
    limit = Limit(seconds)
    limit.watch(device)
    watching = Guard(device, Effort(patience_s=30.0), limit)
    with pytest.raises(Busy, match="stress"):
        watching.wait()
    assert device.watched == looks
    assert device.clock_s <= seconds + 2 * LOOK_S


def test_a_limit_that_is_longer_does_not() -> None:
    device = Watching(1.0)
    limit = Limit(1000.0)
    limit.watch(device)
    with pytest.raises(Busy):
        Guard(device, Effort(patience_s=1.0), limit).wait()
    assert device.clock_s == 5 * LOOK_S
