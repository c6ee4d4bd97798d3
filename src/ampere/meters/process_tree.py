"""Process tree: CPU-seconds of a process and of all that it started, as Linux tells them.

    seconds = Σ own time as last seen + Σ (waited for − what was seen of children that are gone)

over all processes that were ever seen. The second sum is of children that nobody saw, or not to
their end: the kernel adds the time of a child to its parent's account as soon as that one waits for
it. So nothing is lost when a worker of a `DataLoader` ends, and nothing is counted twice; what is
left to another parent before it was seen is.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from ampere.errors import MeterError

PROC = Path("/proc")
CPU_CLOCK = 2  # CPUCLOCK_SCHED: nanoseconds of all threads of a process


class Process(NamedTuple):
    """What the kernel tells of a process: seconds of its own, and of children it waited for."""

    parent: int
    began: int  # with its number it says which one it is: numbers are used again
    own_s: float
    waited_s: float


class ProcessTree:
    """A process and its descendants, dead ones included.

    Args:
        root: Its number; by default this process.

    Raises:
        MeterError: The system does not tell, or there is no such process.
    """

    def __init__(self, root: int | None = None) -> None:
        if not tells():
            raise MeterError(
                "CPU time of child processes is told by Linux alone: use the meter cpu, which"
                " counts one process"
            )
        pid = os.getpid() if root is None else root
        process = look_at(pid)
        if process is None:
            raise MeterError(f"there is no process {pid}")
        self._alive = {pid: process}
        self._gone_s = 0.0  # own time of those that are gone, and what they waited for unseen
        self._seen_s: dict[tuple[int, int], float] = {}  # of dead children, by living parent
        self._told_s = 0.0

    def cpu_s(self) -> float:
        """CPU-seconds so far; never less than before.

        A child is seen by its clock, and waited for in whole ticks: the tick that is missing in
        the moment in which it ends would otherwise be taken back.
        """
        self._look()
        living_s = sum(each.own_s for each in self._alive.values())
        unseen_s = sum(map(self._unseen_s, self._alive, self._alive.values()))
        self._told_s = max(self._told_s, self._gone_s + living_s + unseen_s)
        return self._told_s

    def _look(self) -> None:
        """See who lives, who came and who went."""
        before, self._alive = self._alive, {}
        ahead = list(before)
        while ahead:
            pid = ahead.pop()
            process = None if pid in self._alive else look_at(pid)
            if process is None or (pid in before and process.began != before[pid].began):
                continue
            self._alive[pid] = process
            ahead += children_of(pid)
        for pid, process in before.items():
            if pid not in self._alive:
                self._bury(pid, process, before.get(process.parent))

    def _bury(self, pid: int, process: Process, parent: Process | None) -> None:
        self._gone_s += process.own_s + self._unseen_s(pid, process)
        self._seen_s.pop((pid, process.began), None)
        if parent is not None:
            key = (process.parent, parent.began)
            seen_s = process.own_s + process.waited_s
            self._seen_s[key] = self._seen_s.get(key, 0.0) + seen_s

    def _unseen_s(self, pid: int, process: Process) -> float:
        return max(0.0, process.waited_s - self._seen_s.get((pid, process.began), 0.0))


def tells() -> bool:
    """Whether this system has a list of processes."""
    return (PROC / "self" / "stat").is_file()


def look_at(pid: int) -> Process | None:
    """What the kernel tells of a process; None if it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    parts = text[text.rindex(b")") + 2 :].split()  # a command's name may hold anything
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    utime, stime, cutime, cstime = map(int, parts[11:15])
    try:  # its own clock is finer than the ticks of its file
        own_s = time.clock_gettime((~pid << 3) | CPU_CLOCK)
    except (OSError, OverflowError):
        own_s = tick_s * (utime + stime)
    return Process(int(parts[1]), int(parts[19]), own_s, tick_s * (cutime + cstime))


def children_of(pid: int) -> list[int]:
    """The children of all threads of a process."""
    children: list[int] = []
    try:
        threads = os.listdir(PROC / str(pid) / "task")
    except OSError:
        return []
    for thread in threads:
        try:
            text = (PROC / str(pid) / "task" / thread / "children").read_bytes()
        except OSError:  # gone; or a kernel without such files: then all are asked for their parent
            if not (PROC / "self" / "task" / str(os.getpid()) / "children").exists():
                return asked_children(pid)
            continue
        children += map(int, text.split())
    return children


def asked_children(parent: int) -> list[int]:
    """The same by asking every process for its parent."""
    pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]
    looks = ((pid, look_at(pid)) for pid in pids)
    return [pid for pid, look in looks if look is not None and look.parent == parent]
