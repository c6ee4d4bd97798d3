"""Surroundings: what else ran on a machine while steps ran there, as far as its system tells.

Two looks, subtracted, are the evidence of a burst. Everything is read from small files of the
kernel or asked of it, and what a system does not offer is None: nothing is guessed. The files are
those of Linux; elsewhere there are the CPU-seconds of this process, and what `getrusage` counts.

    /proc/stat           seconds of the cores that this process may use, idle and stolen
    /proc/pressure/cpu   how long anybody waited for a core
    cpu.stat             how long a container's quota kept its processes from running
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from ampere.core.boundary.fields import Fields
from ampere.core.fingerprint import clock_mhz, temperature_c, usable_cores

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

TICK_S = 0.01  # in which /proc/stat counts
CONDITIONS_S = 1.0  # between looks at clocks and temperatures: some sensors are slow
NAMED = 3  # processes that are told
NAME = 60  # characters of a process's name
MOST_S, MOST_CORES, MOST_COUNT = 1e12, 10**6, 10**15


@dataclass(frozen=True)
class Evidence:
    """What ran beside a burst, in seconds; None where the system does not tell.

    `cores` are those that the steps may use, `cpu_s` is what they used of them, and `absent_s` how
    long no core worked for them at all (None if they need none: they may wait for an accelerator).
    `others_s` is what all other processes used of these cores, `stolen_s` what other virtual
    machines did, `waiting_s` how long anybody waited for a core, `held_s` how long the container's
    quota held it up. `switches` were against the process's will, `page_faults` read from a disk.
    """

    cpu_s: float
    cores: int = 1
    absent_s: float | None = None
    others_s: float | None = None
    stolen_s: float | None = None
    waiting_s: float | None = None
    held_s: float | None = None
    switches: int | None = None
    page_faults: int | None = None
    clock_mhz: float | None = None
    temperature_c: float | None = None

    @classmethod
    def from_fields(cls, row: Fields) -> Evidence:
        """Read what a worker says."""

        def seconds(name: str) -> float | None:
            return row.number(name, None, least=0.0, most=MOST_S)

        return cls(
            cpu_s=row.number("cpu_s", least=0.0, most=MOST_S),
            cores=row.whole("cores", least=1, most=MOST_CORES),
            absent_s=seconds("absent_s"),
            others_s=seconds("others_s"),
            stolen_s=seconds("stolen_s"),
            waiting_s=seconds("waiting_s"),
            held_s=seconds("held_s"),
            switches=row.whole("switches", None, most=MOST_COUNT),
            page_faults=row.whole("page_faults", None, most=MOST_COUNT),
            clock_mhz=row.number("clock_mhz", None, least=0.0),
            temperature_c=row.number("temperature_c", None),
        )


@dataclass(frozen=True)
class Process:
    """A process that was busy: its name, its number, and the cores that it used on average."""

    name: str
    pid: int
    cores: float


@dataclass(frozen=True)
class Watched:
    """What a machine did while nothing was asked of it."""

    time_s: float
    evidence: Evidence | None = None
    processes: tuple[Process, ...] = ()

    @classmethod
    def from_fields(cls, answer: Fields) -> Watched:
        """Read what a worker says; names of processes are text to print, no more."""
        processes = []
        for place, row in answer.items("processes", most=NAMED):
            fields = Fields(row, place)
            name = " ".join(fields.text("name").split())[:NAME]
            cores = fields.number("cores", least=0.0, most=MOST_CORES)
            processes.append(Process(name, fields.whole("pid", most=MOST_COUNT), cores))
        evidence = Evidence.from_fields(answer.inner("evidence")) if "evidence" in answer else None
        time_s = answer.number("time_s", least=0.0, most=MOST_S)
        return cls(time_s, evidence, tuple(processes))


@dataclass(frozen=True)
class Look:
    """What has added up so far; None where the system does not tell."""

    at_s: float
    cpu_s: float
    idle_s: float | None
    stolen_s: float | None
    waiting_s: float | None
    held_s: float | None
    switches: int | None
    page_faults: int | None


class Surroundings:
    """This machine, looked at from this process."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sysfs: Path = Path("/sys"),
        cores: list[int] | None = None,
    ) -> None:
        self._proc, self._sysfs = proc, sysfs
        self._cores = usable_cores() if cores is None else cores
        self._conditions: tuple[float | None, float | None] = (None, None)
        self._conditions_at_s = -CONDITIONS_S

    def look(self) -> Look:
        """Look at everything now."""
        idle_s, stolen_s = self._idle_and_stolen()
        usage = resource.getrusage(resource.RUSAGE_SELF) if resource else None
        return Look(
            at_s=time.perf_counter(),
            cpu_s=time.process_time(),
            idle_s=idle_s,
            stolen_s=stolen_s,
            waiting_s=self._waiting_s(),
            held_s=self._held_s(),
            switches=usage.ru_nivcsw if usage else None,
            page_faults=usage.ru_majflt if usage else None,
        )

    def since(self, before: Look) -> Evidence:
        """What has been going on since an earlier look; who was absent, steps themselves know."""
        now = self.look()
        time_s, cpu_s = now.at_s - before.at_s, now.cpu_s - before.cpu_s
        idle_s = _more(before.idle_s, now.idle_s)
        stolen_s = _more(before.stolen_s, now.stolen_s)
        others_s = None
        if idle_s is not None:
            busy_s = len(self._cores) * time_s - idle_s
            others_s = max(busy_s - cpu_s - (stolen_s or 0.0), 0.0)
        switches = _more(before.switches, now.switches)
        page_faults = _more(before.page_faults, now.page_faults)
        clock, temperature = self._clock_and_temperature(now.at_s)
        return Evidence(
            cpu_s=cpu_s,
            cores=len(self._cores),
            others_s=others_s,
            stolen_s=stolen_s,
            waiting_s=_more(before.waiting_s, now.waiting_s),
            held_s=_more(before.held_s, now.held_s),
            switches=None if switches is None else int(switches),
            page_faults=None if page_faults is None else int(page_faults),
            clock_mhz=clock,
            temperature_c=temperature,
        )

    def watch(self, time_s: float) -> Watched:
        """Do nothing for a while, and say who was busy meanwhile, the busiest first."""
        before, spent_before = self.look(), self._spent_by_process()
        time.sleep(time_s)
        spent_now = self._spent_by_process()
        evidence = self.since(before)
        passed_s = time.perf_counter() - before.at_s
        busy = [
            Process(name[:NAME], pid, (spent_s - spent_before.get(pid, (name, 0.0))[1]) / passed_s)
            for pid, (name, spent_s) in spent_now.items()
            if pid != os.getpid()
        ]
        busy = sorted((each for each in busy if each.cores > 0), key=lambda each: -each.cores)
        return Watched(passed_s, evidence, tuple(busy[:NAMED]))

    def _idle_and_stolen(self) -> tuple[float | None, float | None]:
        """Of the usable cores together, in seconds; waiting for a disk is idle, too."""
        lines = _text(self._proc / "stat").split("\nintr", 1)[0].splitlines()
        rows = [line.split() for line in lines if line.startswith("cpu")]
        every = {row[0][3:]: row[1:] for row in rows}
        wanted = [str(core) for core in self._cores]
        if len(every) == len(wanted) + 1 and "" in every:
            wanted = [""]  # the sum of all is rounded once
        try:
            times = [[int(field) for field in every[core]] for core in wanted]
            return (
                TICK_S * sum(row[3] + row[4] for row in times),
                TICK_S * sum(row[7] for row in times),
            )
        except (KeyError, ValueError, IndexError):
            return None, None

    def _waiting_s(self) -> float | None:
        for line in _text(self._proc / "pressure/cpu").splitlines():
            if line.startswith("some") and "total=" in line:
                return _number(line.rpartition("total=")[2], 1e-6)
        return None

    def _held_s(self) -> float | None:
        for path, key, unit in (
            ("fs/cgroup/cpu.stat", "throttled_usec", 1e-6),
            ("fs/cgroup/cpu/cpu.stat", "throttled_time", 1e-9),
        ):
            for line in _text(self._sysfs / path).splitlines():
                name, _, value = line.partition(" ")
                if name == key:
                    return _number(value, unit)
        return None

    def _clock_and_temperature(self, now_s: float) -> tuple[float | None, float | None]:
        if now_s - self._conditions_at_s >= CONDITIONS_S:
            self._conditions_at_s = now_s
            self._conditions = clock_mhz(self._proc, self._sysfs), temperature_c(self._sysfs)
        return self._conditions

    def _spent_by_process(self) -> dict[int, tuple[str, float]]:
        """CPU-seconds of every process so far, by its number; none where nobody tells."""
        spent = {}
        for entry in _names(self._proc):
            if entry.isdigit():
                head, _, tail = _text(self._proc / entry / "stat").rpartition(")")
                fields = tail.split()
                try:
                    ticks = int(fields[11]) + int(fields[12])
                except (ValueError, IndexError):  # it has ended meanwhile
                    continue
                spent[int(entry)] = head.partition("(")[2], TICK_S * ticks
        return spent


def _more(before: float | None, now: float | None) -> float | None:
    """What was added; some counters of some kernels run backwards for a moment."""
    return None if before is None or now is None else max(now - before, 0)


def _number(text: str, unit: float) -> float | None:
    try:
        return unit * int(text)
    except ValueError:
        return None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
