"""Tools: commands of this machine, run to an end that comes, with an answer that has an end.

A tool runs in a session of its own, so that Ctrl-C reaches only us, and whatever it started can be
ended with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from ampere.errors import DataError

MOST_BYTES = 1 << 20  # of an answer; a phone's battery takes a few kB
LOOK_S = 0.01  # between looks whether it has ended
LINGER_S = 1.0  # for the last words of one that has ended: what it started may hold the pipe
BURY_S = 5.0


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool said, and what it ended with."""

    code: int
    output: str
    errors: str

    @property
    def complaints(self) -> list[str]:
        """The lines that say what went wrong: its errors, or else its output."""
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return [_harmless(line.strip()) for line in lines]


def run_tool(command: Sequence[str], timeout_s: float, data: bytes = b"") -> ToolAnswer:
    """What a tool answers to some data, whatever its exit code.

    Raises:
        OSError: It cannot be run; a `TimeoutError` if it went on beyond its time.
        DataError: It says more than anybody reads.
    """
    end_s = time.monotonic() + timeout_s
    process = start(command)
    stdin, stdout, stderr = streams(process)
    heard = [_Ear(stdout), _Ear(stderr)]
    threading.Thread(target=_feed, args=(stdin, data), daemon=True).start()
    try:
        while (code := ended_with(process)) is None:
            if any(ear.is_full for ear in heard):
                break
            if not time.monotonic() < end_s:
                raise TimeoutError(f"{command[0]} did not answer within {timeout_s:g} s")
            time.sleep(LOOK_S)
        for ear in heard:
            ear.join(LINGER_S)
    finally:
        end_group(process)
    if code is None or any(ear.is_full for ear in heard):
        raise DataError(f"{command[0]} says more than {MOST_BYTES} bytes; is it the tool?")
    output, errors = (ear.heard.decode("utf-8", "replace") for ear in heard)
    return ToolAnswer(code, output, errors)


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, with pipes to and from it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    """Its standard input, output and error."""
    assert process.stdin and process.stdout and process.stderr  # they are pipes
    return process.stdin, process.stdout, process.stderr


def ended_with(process: subprocess.Popen[bytes]) -> int | None:
    """Its exit code if it has ended; unreaped, so that its group's number stays its own."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll()
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # somebody here waits for every child
        return process.poll()
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that `start` has started, and all that it started, and bury it."""
    if sys.platform == "win32":
        process.kill()
    elif process.returncode is None:  # as long as it is not reaped, nobody else has its number
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # a driver that hangs holds it for ever
        process.wait(BURY_S)


class _Ear(threading.Thread):
    """Hears what is said into a pipe until it is closed, or until it is too much."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self.heard = b""
        self._pipe = pipe
        self.start()

    @property
    def is_full(self) -> bool:
        """Whether it has heard more than anybody reads."""
        return len(self.heard) > MOST_BYTES

    def run(self) -> None:
        with contextlib.suppress(OSError), self._pipe:
            while not self.is_full:
                part = os.read(self._pipe.fileno(), 1 << 16)
                if not part:
                    break
                self.heard += part


def _harmless(line: str) -> str:
    """A line as a terminal can bear it."""
    return "".join(each if each.isprintable() else "?" for each in line[:200])


def _feed(pipe: IO[bytes], data: bytes) -> None:
    """Hand data over, from a thread of its own: who does not read must not hold us up."""
    with contextlib.suppress(OSError), pipe:
        pipe.write(data)
