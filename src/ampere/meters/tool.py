"""A tool of this machine, run for its answer: it cannot hang, flood the memory or leave a part."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

from ampere.errors import MeterError, MeterFault

MOST_BYTES = 1 << 20  # of an answer; a phone's battery takes a few kB
BURY_S = 5.0


def run_tool(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """What a tool answers, whatever its exit code.

    Raises:
        MeterFault: If it, or whatever it started, went on beyond the time: all of it is killed.
        MeterError: If it cannot be run, or says more than anybody reads.
    """
    try:
        deadline_s = time.monotonic() + timeout_s
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a group of its own, with whatever it starts
        )
    except FileNotFoundError:
        raise MeterError(f"{command[0]} is not installed here, or not on the PATH") from None
    except (OSError, ValueError, TypeError) as error:
        raise MeterError(f"{command[0]} cannot be run ({error})") from error
    ears = [_Ear(pipe) for pipe in (process.stdout, process.stderr) if pipe]
    try:
        for ear in ears:
            ear.join(_left_s(deadline_s))
        if any(len(ear.heard) > MOST_BYTES for ear in ears):
            raise MeterError(f"{command[0]} says more than {MOST_BYTES} bytes; is it the tool?")
        if any(ear.is_alive() for ear in ears):
            raise subprocess.TimeoutExpired(command, timeout_s)
        code = process.wait(_left_s(deadline_s))
    except subprocess.TimeoutExpired:
        raise MeterFault(f"{command[0]} did not answer within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            _end(process)
    out, err = (ear.heard.decode("utf-8", "replace") for ear in ears)
    return subprocess.CompletedProcess(command, code, out, err)


class _Ear(threading.Thread):
    """Hears what is said into a pipe until it is closed, or until it is too much."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self.heard = b""
        self._pipe = pipe
        self.start()

    def run(self) -> None:
        with self._pipe:
            while len(self.heard) <= MOST_BYTES:
                part = os.read(self._pipe.fileno(), 1 << 16)
                if not part:
                    break
                self.heard += part


def _left_s(deadline_s: float) -> float:
    return min(max(0.0, deadline_s - time.monotonic()), threading.TIMEOUT_MAX)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with its whole group, and bury it: until then its number is nobody else's."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(BURY_S)
