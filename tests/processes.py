"""Processes as Linux lists them: those that were started with a mark in their environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ampere.sittings.effort import Effort

MARK = "AMPERE_TEST_MARK"

# Tests run side by side, so this machine is busy by design, and whoever measures with a real worker
# would be refused after a while: such tests accept it.
ACCEPT_BUSY = "--accept-busy"
BESIDE_OTHERS = Effort(accept_busy=True)


def marked(mark: str) -> dict[int, str]:
    """Command lines of the processes that have this mark, and live, by their numbers."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it has ended, or is another user's
                continue
            if wanted in environment:
                found[int(folder.name)] = command
    return found


def until(condition: Callable[[], bool], otherwise: str, seconds: float = 15.0) -> None:
    """Wait for a condition, but not for ever."""
    end_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end_s, otherwise
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process lives; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
