"""Surroundings: what a fake kernel tells of everybody else, counted by hand."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.fingerprint import usable_cores
from ampere.errors import Busy, DataError
from ampere.meters import surroundings
from ampere.meters.surroundings import (
    Evidence,
    Look,
    Process,
    Surroundings,
    Watched,
)
from ampere.sittings.effort import Effort
from ampere.sittings.quiet import Guard
from fakes import FakeDevice

TELLS = [each.name for each in fields(Evidence) if each.name not in ("cpu_s", "cores")]


class Clock:
    """Time that passes when it is told to; somebody may do something meanwhile."""

    def __init__(self) -> None:
        self.now_s, self.cpu_s = 100.0, 7.0
        self.meanwhile: Callable[[], None] = lambda: None

    def perf_counter(self) -> float:
        return self.now_s

    def process_time(self) -> float:
        return self.cpu_s

    def sleep(self, time_s: float) -> None:
        self.now_s += time_s
        self.meanwhile()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(surroundings, "time", clock)
    return clock


class Kernel:
    """The small files of a kernel."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sysfs = root / "proc", root / "sys"

    def write(self, path: str, content: str | bytes) -> None:
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def stat(self, **ticks: Iterable[int]) -> None:
        """Idle, waiting for a disk and stolen, of the sum `cpu` and of each core."""
        lines = [
            f"{name}{' ' if name == 'cpu' else ''} 500 0 70 {idle} {disk} 3 4 {stolen} 0 0"
            for name, (idle, disk, stolen) in ticks.items()
        ]
        rest = ["intr 12345 0 9", "ctxt 678", "btime 1770000000", "processes 9"]
        self.write("proc/stat", "\n".join([*lines, *rest]) + "\n")

    def process(self, pid: int, ticks: int, name: str | bytes = "other") -> None:
        """One that has spent so many ticks, a third of them in the kernel."""
        title = name if isinstance(name, bytes) else name.encode()
        before = f" S 1 {pid} {pid} 0 -1 4194560 120 0 3 0 "
        spent = f"{ticks - ticks // 3} {ticks // 3} 0 0 20 0 1 0 4242"
        tail = f"{before}{spent}\n".encode()
        self.write(f"proc/{pid}/stat", f"{pid} (".encode() + title + b")" + tail)

    def ends(self, pid: int) -> None:
        (self.proc / str(pid) / "stat").unlink()
        (self.proc / str(pid)).rmdir()

    def seen(self, *cores: int) -> Surroundings:
        return Surroundings(self.proc, self.sysfs, list(cores) or [0, 1])


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def of_one_second(
    clock: Clock, seen: Surroundings, meanwhile: Callable[[], None], own_s: float = 0.5
) -> Evidence:
    """What is told of a second in which this process used so many seconds of the cores."""
    before = seen.look()
    meanwhile()
    clock.now_s += 1.0
    clock.cpu_s += own_s
    return seen.since(before)


# --- cores ----------------------------------------------------------------------------------------


def test_others_are_what_is_neither_idle_nor_ours_nor_stolen(kernel: Kernel, clock: Clock) -> None:
    kernel.stat(cpu=(1000, 50, 5), cpu0=(500, 25, 2), cpu1=(500, 25, 3))
    seen = kernel.seen(0, 1)
    found = of_one_second(clock, seen, lambda: kernel.stat(
        cpu=(1110, 60, 15), cpu0=(555, 30, 7), cpu1=(555, 30, 8)))  # fmt: skip
    # Two cores for a second, 1.1 s idle, 0.1 s for a disk, 0.5 s ours, 0.1 s stolen.
    assert found.others_s == pytest.approx(2 * 1.0 - 1.2 - 0.5 - 0.1)
    assert found.stolen_s == pytest.approx(0.1)
    assert found.cpu_s == pytest.approx(0.5)
    assert found.cores == 2
    assert found.absent_s is None


def test_with_every_core_the_sum_counts_which_is_rounded_once(kernel: Kernel, clock: Clock) -> None:
    kernel.stat(cpu=(1000, 0, 0), cpu0=(500, 0, 0), cpu1=(500, 0, 0))
    found = of_one_second(clock, kernel.seen(0, 1), lambda: kernel.stat(
        cpu=(1101, 0, 3), cpu0=(550, 0, 1), cpu1=(550, 0, 1)), own_s=0.9)  # fmt: skip
    assert found.others_s == pytest.approx(2.0 - 1.01 - 0.9 - 0.03)
    assert found.stolen_s == pytest.approx(0.03)


@pytest.mark.parametrize(("core", "others_s"), [(0, 0.0), (1, 0.3)])
def test_pinned_to_one_core_only_that_one_counts(
    kernel: Kernel, clock: Clock, core: int, others_s: float
) -> None:
    kernel.stat(cpu=(900, 0, 0), cpu0=(300, 0, 0), cpu1=(300, 0, 0), cpu2=(300, 0, 0))
    seen = kernel.seen(core)
    idle = {0: 350, 1: 320}  # of the third one nothing: somebody works there all the time
    found = of_one_second(clock, seen, lambda: kernel.stat(
        cpu=(970, 0, 0), cpu0=(idle[0], 0, 0), cpu1=(idle[1], 0, 0), cpu2=(300, 0, 0)))  # fmt: skip
    assert found.cores == 1
    assert found.others_s == pytest.approx(others_s)


def test_some_of_many_cores_are_added_up(kernel: Kernel, clock: Clock) -> None:
    calm = {f"cpu{core}": (100, 10, 1) for core in range(12)}
    kernel.stat(cpu=(1200, 120, 12), **calm)
    seen = kernel.seen(1, 10, 11)
    later = {**calm, "cpu1": (150, 15, 3), "cpu10": (190, 10, 1), "cpu11": (120, 10, 4)}
    found = of_one_second(clock, seen, lambda: kernel.stat(cpu=(1360, 125, 17), **later))
    assert found.stolen_s == pytest.approx(0.05)
    assert found.others_s == pytest.approx(3.0 - 1.65 - 0.5 - 0.05)


def test_others_are_never_fewer_than_none(kernel: Kernel, clock: Clock) -> None:
    kernel.stat(cpu=(0, 0, 0), cpu0=(0, 0, 0), cpu1=(0, 0, 0))
    found = of_one_second(clock, kernel.seen(), lambda: kernel.stat(
        cpu=(160, 0, 0), cpu0=(80, 0, 0), cpu1=(80, 0, 0)))  # fmt: skip
    assert found.others_s == 0.0  # idle and ours are 0.1 s too much: both ends were rounded


def test_a_count_that_runs_backwards_counts_as_nothing(kernel: Kernel, clock: Clock) -> None:
    kernel.stat(cpu=(100, 900, 8), cpu0=(50, 450, 4), cpu1=(50, 450, 4))
    found = of_one_second(clock, kernel.seen(), lambda: kernel.stat(
        cpu=(110, 850, 5), cpu0=(55, 425, 2), cpu1=(55, 425, 3)))  # fmt: skip
    assert found.stolen_s == 0.0
    assert found.others_s == pytest.approx(2.0 - 0.5)


def test_an_old_kernel_that_counts_less_tells_nothing_of_others(
    kernel: Kernel, clock: Clock
) -> None:
    kernel.write("proc/stat", "cpu 1 2 3 4\ncpu0 1 2 3 4\nintr 5\n")
    found = of_one_second(clock, kernel.seen(0), lambda: None)
    assert (found.others_s, found.stolen_s) == (None, None)
    assert found.cpu_s == pytest.approx(0.5)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "intr 1 2 3\n",
        "cpu\ncpu0\ncpu1\n",
        "cpu a b c d e f g h\n",
        "cpu 1 2 3 4 5 6 7 x\ncpu0 1 2 3 4 5 6 7 x\ncpu1 1 2 3 4 5 6 7 x\n",
        "cpu0 1 2 3 4 5 6 7 8\n",  # one of the two is missing
        b"\xff\xfe\x00cpu \x80\n",
        f"cpu {'9' * 5000} 2 3 {'9' * 5000} 5 6 7 8\ncpu0 1\ncpu1 2\n",
    ],
)
def test_a_count_that_cannot_be_read_tells_nothing(
    kernel: Kernel, clock: Clock, content: str | bytes
) -> None:
    kernel.write("proc/stat", content)
    found = of_one_second(clock, kernel.seen(0, 1), lambda: None)
    assert (found.others_s, found.stolen_s) == (None, None)


def test_a_count_that_ends_in_the_middle_tells_nothing(kernel: Kernel, clock: Clock) -> None:
    kernel.stat(cpu=(0, 0, 0), cpu0=(0, 0, 0), cpu1=(0, 0, 0))
    found = of_one_second(clock, kernel.seen(), lambda: (kernel.proc / "stat").unlink())
    assert (found.others_s, found.stolen_s) == (None, None)


def test_the_cores_of_this_process_are_those_it_may_use() -> None:
    cores = usable_cores()
    assert cores == sorted(cores)
    assert len(cores) >= 1
    if hasattr(os, "sched_getaffinity"):
        assert set(cores) == os.sched_getaffinity(0)


def test_where_nobody_pins_processes_all_cores_are_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert usable_cores() == [0, 1, 2]
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == [0]


# --- waiting, quotas, conditions ------------------------------------------------------------------


def test_a_machine_without_any_files_tells_nothing_and_does_not_fail(
    kernel: Kernel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "resource", None)  # Windows
    seen = kernel.seen(0, 1)
    found = of_one_second(clock, seen, lambda: None)
    assert found == Evidence(cpu_s=found.cpu_s, cores=2)
    assert found.cpu_s == pytest.approx(0.5)
    watched = seen.watch(0.25)
    assert watched == Watched(0.25, Evidence(cpu_s=0.0, cores=2))


def test_how_long_anybody_waited_for_a_core(kernel: Kernel, clock: Clock) -> None:
    def pressure(total: int) -> None:
        kernel.write(
            "proc/pressure/cpu",
            f"some avg10=0.12 avg60=0.00 avg300=0.00 total={total}\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n",
        )

    pressure(1_000_000)
    found = of_one_second(clock, kernel.seen(), lambda: pressure(1_250_000))
    assert found.waiting_s == pytest.approx(0.25)


@pytest.mark.parametrize(
    "content", ["", "full avg10=0.00 total=5\n", "some total=\n", "some total=many\n", "some 5\n"]
)
def test_pressure_that_cannot_be_read_is_unknown(
    kernel: Kernel, clock: Clock, content: str
) -> None:
    kernel.write("proc/pressure/cpu", content)
    assert of_one_second(clock, kernel.seen(), lambda: None).waiting_s is None


V2 = "usage_usec 5\nnr_periods 3\nnr_throttled 1\nthrottled_usec {}\n"
V1 = "nr_periods 3\nnr_throttled 1\nthrottled_time {}\n"


@pytest.mark.parametrize(
    ("path", "text", "unit"),
    [("sys/fs/cgroup/cpu.stat", V2, 10**6), ("sys/fs/cgroup/cpu/cpu.stat", V1, 10**9)],
)
def test_how_long_a_quota_held_it_up(
    kernel: Kernel, clock: Clock, path: str, text: str, unit: int
) -> None:
    kernel.write(path, text.format(2 * unit))
    found = of_one_second(
        clock, kernel.seen(), lambda: kernel.write(path, text.format(2 * unit + unit // 4))
    )
    assert found.held_s == pytest.approx(0.25)


@pytest.mark.parametrize("text", ["", "throttled_usec\n", "throttled_usec much\n", "usage_usec 1"])
def test_a_quota_that_nobody_tells_is_unknown(kernel: Kernel, clock: Clock, text: str) -> None:
    kernel.write("sys/fs/cgroup/cpu.stat", text)
    assert of_one_second(clock, kernel.seen(), lambda: None).held_s is None


def test_switches_and_page_faults_are_those_of_this_process(
    kernel: Kernel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(ru_nivcsw=40, ru_majflt=3)
    system = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: SimpleNamespace(**vars(usage)))
    monkeypatch.setattr(surroundings, "resource", system)

    def meanwhile() -> None:
        usage.ru_nivcsw, usage.ru_majflt = 45, 3

    found = of_one_second(clock, kernel.seen(), meanwhile)
    assert (found.switches, found.page_faults) == (5, 0)
    assert isinstance(found.switches, int)


def test_clocks_and_temperatures_are_looked_at_once_a_second(kernel: Kernel, clock: Clock) -> None:
    def conditions(mhz: int, degrees: int) -> None:
        cpu = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
        for core in (0, 1):
            kernel.write(cpu.format(core), f"{1000 * (mhz + 100 * core)}\n")
        kernel.write("sys/class/thermal/thermal_zone0/temp", f"{1000 * degrees}\n")

    seen = kernel.seen()
    conditions(2000, 50)
    start = seen.look()
    first = seen.since(start)
    assert (first.clock_mhz, first.temperature_c) == (2050.0, 50.0)
    conditions(1000, 80)
    clock.now_s += 0.5
    assert seen.since(start).clock_mhz == 2050.0
    clock.now_s += 0.5
    later = seen.since(start)
    assert (later.clock_mhz, later.temperature_c) == (1050.0, 80.0)


def test_looks_made_by_hand_are_subtracted(kernel: Kernel, clock: Clock) -> None:
    before = Look(
        at_s=90.0, cpu_s=6.0, idle_s=None, stolen_s=1.0, waiting_s=None, held_s=None,
        switches=None, page_faults=None,
    )  # fmt: skip
    kernel.stat(cpu=(100, 0, 300), cpu0=(50, 0, 150), cpu1=(50, 0, 150))
    found = kernel.seen().since(before)
    assert found.cpu_s == pytest.approx(1.0)
    assert found.others_s is None  # what was idle before is not known
    assert found.stolen_s == pytest.approx(2.0)


# --- who was busy ---------------------------------------------------------------------------------


def test_the_busiest_are_told_by_name_the_first_three_of_them(kernel: Kernel, clock: Clock) -> None:
    for pid, ticks in ((10, 100), (11, 50), (12, 900), (13, 0), (14, 7)):
        kernel.process(pid, ticks, f"name{pid}")
    kernel.process(os.getpid(), 100, "ampere")

    def meanwhile() -> None:
        kernel.process(10, 150, "name10")
        kernel.process(11, 140, "name11")
        kernel.process(13, 3, "name13")
        kernel.process(14, 9, "name14")
        kernel.process(os.getpid(), 200, "ampere")  # nobody is told of himself

    clock.meanwhile = meanwhile
    watched = kernel.seen().watch(1.0)
    assert watched.time_s == 1.0
    assert [(each.name, each.pid) for each in watched.processes] == [
        ("name11", 11), ("name10", 10), ("name13", 13),
    ]  # fmt: skip
    assert [each.cores for each in watched.processes] == pytest.approx([0.9, 0.5, 0.03])


def test_a_process_that_appears_is_told_and_one_that_ends_is_not(
    kernel: Kernel, clock: Clock
) -> None:
    kernel.process(20, 500, "ends")
    kernel.process(21, 500, "again")

    def meanwhile() -> None:
        kernel.ends(20)
        kernel.process(21, 2, "another with its number")
        kernel.process(22, 10, "appears")

    clock.meanwhile = meanwhile
    (told,) = kernel.seen().watch(0.5).processes
    assert told == Process("appears", 22, pytest.approx(0.2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a) b (c) S 9 9", "a) b (c) S 9 9"),
        ("(sd-pam)", "(sd-pam)"),
        (")", ")"),
        ("Web Content", "Web Content"),
        ("kworker/u8:0", "kworker/u8:0"),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
        ("x" * 200, "x" * surroundings.NAME),
        ("", ""),
    ],
)
def test_odd_names(kernel: Kernel, clock: Clock, name: str | bytes, told: str) -> None:
    kernel.process(30, 10, name)
    clock.meanwhile = lambda: kernel.process(30, 60, name)
    (process,) = kernel.seen().watch(1.0).processes
    assert (process.name, process.pid) == (told, 30)
    assert process.cores == pytest.approx(0.5)


@pytest.mark.parametrize("content", ["", "40", "40 (x", "40 (x) S 1 2", "40 (x) " + "a " * 20])
def test_a_process_that_cannot_be_read_is_passed_over(
    kernel: Kernel, clock: Clock, content: str
) -> None:
    kernel.write("proc/40/stat", content)
    kernel.write("proc/self/stat", "1 (x) S" + " 5" * 20)
    kernel.process(41, 0)
    clock.meanwhile = lambda: kernel.process(41, 30)
    assert [each.pid for each in kernel.seen().watch(1.0).processes] == [41]


def test_watching_counts_everybody_else_as_others(kernel: Kernel, clock: Clock) -> None:
    kernel.stat(cpu=(0, 0, 0), cpu0=(0, 0, 0), cpu1=(0, 0, 0))
    clock.meanwhile = lambda: kernel.stat(cpu=(10, 0, 0), cpu0=(10, 0, 0), cpu1=(0, 0, 0))
    evidence = kernel.seen().watch(0.25).evidence
    assert evidence is not None
    assert evidence.others_s == pytest.approx(2 * 0.25 - 0.1)


def test_this_machine_can_be_looked_at() -> None:
    seen = Surroundings()
    watched = seen.watch(0.01)
    assert watched.time_s >= 0.01
    assert watched.evidence is not None
    if Path("/proc/stat").exists():
        assert watched.evidence.others_s is not None
    assert Watched.from_fields(Fields(parse_json(json.dumps(asdict(watched))))).evidence


@given(noise=st.binary(max_size=60), later=st.binary(max_size=60))
def test_odd_files_never_fail(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, later: bytes
) -> None:
    kernel = Kernel(tmp_path_factory.mktemp("odd"))
    prefixes = {
        "proc/stat": b"cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 ",
        "proc/pressure/cpu": b"some total=",
        "proc/7/stat": b"7 (x) S 1 1 1 1 1 1 1 1 1 1 ",
        "sys/fs/cgroup/cpu.stat": b"throttled_usec ",
        "sys/class/thermal/thermal_zone0/temp": b"",
    }

    def write(odd: bytes) -> None:
        for path, prefix in prefixes.items():
            kernel.write(path, prefix + odd)

    write(noise)
    seen = kernel.seen(0)
    before = seen.look()
    write(later)
    evidence, watched = seen.since(before), seen.watch(0.0)
    for each in (evidence, watched.evidence):
        assert each is not None
        assert all(value is None or value >= 0 for value in asdict(each).values())


# --- what a worker says ---------------------------------------------------------------------------

seconds = st.floats(0.0, 1e12)
counts = st.integers(0, 10**15)
evidences = st.builds(
    Evidence,
    cpu_s=seconds,
    cores=st.integers(1, 10**6),
    **{name: st.none() | seconds for name in TELLS if name.endswith("_s")},
    switches=st.none() | counts,
    page_faults=st.none() | counts,
    clock_mhz=st.none() | st.floats(0.0, 1e6),
    temperature_c=st.none() | st.floats(-300.0, 1e6),
)
words = st.text(st.characters(exclude_categories=["Z", "C"]), max_size=surroundings.NAME)
processes = st.builds(Process, words, counts, st.floats(0.0, 1e6))
watches = st.builds(
    Watched, seconds, st.none() | evidences, st.lists(processes, max_size=3).map(tuple)
)


def sent(value: Evidence | Watched) -> Fields:
    """As it comes over the line."""
    return Fields(parse_json(json.dumps(asdict(value))))


@given(evidences)
def test_evidence_comes_over_the_line_as_it_is(evidence: Evidence) -> None:
    assert Evidence.from_fields(sent(evidence)) == evidence


@given(watches)
def test_what_was_watched_comes_over_the_line_as_it_is(watched: Watched) -> None:
    assert Watched.from_fields(sent(watched)) == watched


def test_only_the_seconds_of_the_steps_and_their_cores_must_be_told() -> None:
    assert Evidence.from_fields(Fields({"cpu_s": 1, "cores": 2})) == Evidence(1.0, 2)
    nulls = dict.fromkeys(TELLS)
    assert Evidence.from_fields(Fields({"cpu_s": 1, "cores": 2, **nulls})) == Evidence(1.0, 2)
    for row in ({"cpu_s": 1.0}, {"cores": 2}, {}):
        with pytest.raises(DataError, match="is missing"):
            Evidence.from_fields(Fields(row))
    assert Watched.from_fields(Fields({"time_s": 0.25})) == Watched(0.25)
    with pytest.raises(DataError, match="time_s is missing"):
        Watched.from_fields(Fields({}))


NO_SECONDS = [-1e-9, -5, math.nan, math.inf, "NaN", "1", True, [], {}, 1e13, 10**400]
NO_COUNTS = [-1, 0.5, math.nan, math.inf, "3", True, [1], 10**16, 10**400]


@pytest.mark.parametrize("name", ["cpu_s", *(name for name in TELLS if name.endswith("_s"))])
@pytest.mark.parametrize("wrong", NO_SECONDS)
def test_seconds_that_cannot_be_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(DataError, match=name):
        Evidence.from_fields(Fields({"cpu_s": 1.0, "cores": 2, name: wrong}))


@pytest.mark.parametrize("name", ["switches", "page_faults", "cores"])
@pytest.mark.parametrize("wrong", NO_COUNTS)
def test_counts_that_cannot_be_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(DataError, match=name):
        Evidence.from_fields(Fields({"cpu_s": 1.0, "cores": 2, name: wrong}))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("cores", 0),
        ("cores", 10**6 + 1),
        ("clock_mhz", -1.0),
        ("clock_mhz", math.inf),
        ("temperature_c", math.nan),
        ("temperature_c", "hot"),
    ],
)
def test_conditions_that_cannot_be_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(DataError, match=name):
        Evidence.from_fields(Fields({"cpu_s": 1.0, "cores": 2, name: wrong}))


FINE = {"name": "x", "pid": 1, "cores": 0.5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"processes": [FINE] * 4},
        {"processes": FINE},
        {"processes": ["x"]},
        {"processes": [{**FINE, "name": 7}]},
        {"processes": [{**FINE, "name": None}]},
        {"processes": [{**FINE, "name": "x" * 10_001}]},
        {"processes": [{**FINE, "name": "\ud800"}]},
        {"processes": [{**FINE, "pid": -1}]},
        {"processes": [{**FINE, "pid": 1.5}]},
        {"processes": [{**FINE, "cores": -0.1}]},
        {"processes": [{**FINE, "cores": 1e7}]},
        {"processes": [{**FINE, "cores": math.nan}]},
        {"evidence": 5},
        {"evidence": {"cpu_s": -1.0, "cores": 1}},
        {"time_s": -0.1},
        {"time_s": math.nan},
        {"time_s": "0.25"},
        {"time_s": 1e13},
    ],
)
def test_what_a_worker_cannot_have_watched_is_refused(wrong: Mapping[str, Any]) -> None:
    fine = {"time_s": 0.25, "processes": [FINE], "evidence": {"cpu_s": 0.0, "cores": 2}}
    assert Watched.from_fields(Fields(fine)).processes == (Process("x", 1, 0.5),)
    with pytest.raises(DataError):
        Watched.from_fields(Fields({**fine, **wrong}))


HOSTILE = "evil\x1b[2J\x07\r\n\u202e\x9b31mname\t\u200b" + "x" * 300


def test_a_hostile_name_is_text_to_print_in_one_line_and_no_more() -> None:
    answer = {
        "time_s": 0.25,
        "evidence": asdict(Evidence(0.0, 2, others_s=0.25)),
        "processes": [{"name": HOSTILE, "pid": 7, "cores": 1.0}],
    }
    watched = Watched.from_fields(Fields(answer))
    assert len(watched.processes[0].name) <= surroundings.NAME

    class Hostile(FakeDevice):
        def watch(self, time_s: float) -> Watched:
            return replace(watched, time_s=time_s)

    with pytest.raises(Busy) as refused:
        Guard(Hostile(), Effort(patience_s=0.0)).wait()
    message = str(refused.value)
    assert message.isprintable()
    assert "(pid 7) takes 1.00 of its 2 cores" in message
    assert "evil" in message
    assert len(message) < 300
