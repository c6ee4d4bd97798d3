"""Processes: each in a group of its own, with an end that comes, and looked at while it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ampere.core.boundary.tool import end_group, ended_with

LOOK_S = 0.05  # between looks at a process that runs: more of them would be work beside it
REFUSED = "--accept-busy"  # what a refusal because of other work advises


@dataclass(frozen=True)
class Ended:
    """A process that has ended, or was ended because it took too long: then it has no code."""

    code: int | None
    output: str
    complaint: str  # its last line
    seconds: float

    @property
    def is_busy(self) -> bool:
        """Whether other work was in its way, and it said so."""
        return self.code == 1 and REFUSED in self.complaint


@dataclass
class Look:
    """Who looks at the worker of a command now and then, and may act on it."""

    act: Callable[[int, int], float]  # with its number, and its answers so far: when to look again
    worker: int | None = None

    def __call__(self, pid: int) -> float:
        """Look once, at the worker of this process; returns the seconds until the next time."""
        if self.worker is None:
            self.worker = next((each for each in children(pid) if is_worker(each)), None)
        if self.worker is None or (answers := answers_of(self.worker)) is None:
            return LOOK_S
        return self.act(self.worker, answers)


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    timeout_s: float,
    look: Look | None = None,
) -> Ended:
    """Run a command to its end, or end it and its worker after its time."""
    start_s = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        try:
            while (code := ended_with(process)) is None and time.monotonic() - start_s < timeout_s:
                time.sleep(LOOK_S if look is None else look(process.pid))
            seconds = time.monotonic() - start_s
        finally:
            # The worker leads a group of its own; once its master has gone it ends itself.
            for child in children(process.pid):
                send(child, signal.SIGKILL)
            end_group(process)
        said, told = (_whole(file) for file in (output, errors))
    lines = told.replace("\r", "\n").splitlines()
    return Ended(code, said, lines[-1] if lines else "", seconds)


def children(pid: int) -> list[int]:
    """Processes that a process has started, from whichever thread."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"devices.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def answers_of(pid: int) -> int | None:
    """How often a worker has written, which it does to answer; None once it has gone."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("syscw")).split()[1])
    return None


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace").strip()
