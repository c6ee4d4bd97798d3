"""Script: a training program of somebody else's, run under a gate.

    ampere run --budget 5Wh -- python train.py

         ampere                      the program and its children
           │ starts ────────────────▶ │   in a session of its own
           │ ◀──────── output ─────── │   passed on; steps are read off it if a pattern says how
           │ tick, tick, tick         │
           │ SIGTERM ───────────────▶ │   saves a checkpoint, if it can
           │ ... grace ... SIGKILL ─▶ ╳

Joules are those of this process and all below it, or of the whole machine, as the meter tells.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ampere.devices.memory import KEEPING
from ampere.errors import DataError
from ampere.gates.gate import Gate
from ampere.gates.story import Reason

STOPPED = 75  # exit code: a temporary failure, go on later (sysexits.h)
NOT_FOUND = 127
TICK_S = 0.1
ENDING_S = 0.3  # what ending takes, without saving anything
MOST_ENDING = 0.05  # of a budget, that is kept for what a program does when it is asked to end
LONGEST_LINE = 10_000
PROGRESS = r"(\d+)(?:\s*/\s*(\d+))?"  # of a progress file: a step, or a step and all of them


@dataclass(frozen=True)
class Script:
    """A command, and how its progress is seen.

    Args:
        command: The program and its arguments.
        pattern: What its output is searched for; the first group is the step, the second, if there
            is one, all steps.
        progress_file: A file in which it writes its step instead.
        grace_s: From asking it to end to ending it.
        output: The number of the file that its standard output goes to.
        keep_memory: Whether it keeps memory that it freed, as networks do that are measured.
    """

    command: tuple[str, ...]
    pattern: str | None = None
    progress_file: Path | None = None
    grace_s: float = 30.0
    output: int = 1
    keep_memory: bool = False

    def __post_init__(self) -> None:
        if not self.command:
            raise DataError("which program? write it behind --: ampere run -- python train.py")
        try:
            groups = re.compile(self.pattern or PROGRESS).groups
        except re.error as error:
            raise DataError(f"the pattern {self.pattern!r} cannot be read: {error}") from None
        if groups < 1:
            raise DataError(
                f"the pattern {self.pattern!r} has no group for the step: write 'step (\\d+)'"
            )

    def run(self, gate: Gate) -> int:
        """Run it to its end, or to that of the budget; returns its exit code, or `STOPPED`.

        Raises:
            DataError: There is no such program.
        """
        gate.start()
        steps = _Steps(re.compile(self.pattern or PROGRESS))
        with _forwarded() as forward:
            try:
                process = self._begin()
            except OSError as error:
                gate.finish(Reason.FAILED)
                raise DataError(f"{self.command[0]} cannot be run: {error.strerror}") from None
            forward(process)
            with _passed_on(process, self.output, steps):
                stopped = self._watch(process, gate, steps)
        self._look(steps, gate)  # what it wrote last, between our last look and its end
        code = process.returncode
        interrupted = -code in (signal.SIGINT, signal.SIGTERM) or code == 128 + signal.SIGINT
        failed = Reason.LEFT if interrupted else Reason.FAILED
        gate.finish(None if stopped or code == 0 else failed)
        if stopped:
            return STOPPED
        return 128 - code if code < 0 else code

    def _begin(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE if self.pattern else self.output,
            stderr=subprocess.PIPE if self.pattern else None,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(KEEPING if self.keep_memory else {})},
            start_new_session=True,  # so that all of it can be ended at once
        )

    def _watch(self, process: subprocess.Popen[bytes], gate: Gate, steps: _Steps) -> bool:
        """Until the program ends; True if the gate ended it."""
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TICK_S)
                return False
            self._look(steps, gate)
            if not gate.tick(TICK_S + ENDING_S + self._ending_s(gate)):
                self._end(process, gate)
                return True

    def _look(self, steps: _Steps, gate: Gate) -> None:
        if self.progress_file is not None:
            steps.read(self.progress_file)
        steps.tell(gate)

    def _ending_s(self, gate: Gate) -> float:
        """Seconds that the program may take to end: room for its joules is kept."""
        power_w, budget_j = gate.power_w, gate.terms.budget_j
        if not power_w or budget_j is None:
            return 0.0
        return min(self.grace_s, MOST_ENDING * budget_j / power_w)

    def _end(self, process: subprocess.Popen[bytes], gate: Gate) -> None:
        """Ask the program to end, and after a while end it; joules go on being counted."""
        gate.note(f"the budget comes near: SIGTERM is sent, SIGKILL after {self.grace_s:g} s")
        _signal(process, signal.SIGTERM)
        deadline_s = time.monotonic() + self.grace_s
        while time.monotonic() < deadline_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TICK_S)
                return
            gate.tick(TICK_S)
        _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()


@dataclass
class _Steps:
    """The steps of a program, as far as it has told."""

    pattern: re.Pattern[str]
    step: int = 0
    total: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def line(self, text: str) -> None:
        """A line of its output."""
        match = self.pattern.search(text)
        if match is None:
            return
        with contextlib.suppress(TypeError, ValueError), self._lock:
            self.step = max(self.step, int(match[1]))
            if self.pattern.groups > 1 and match[2]:
                self.total = int(match[2])

    def read(self, path: Path) -> None:
        """A file in which it writes its progress; one that is not there yet says nothing."""
        with contextlib.suppress(OSError):
            with path.open("rb") as file:
                text = file.read(LONGEST_LINE).decode(errors="replace")
            for line in text.splitlines()[-1:]:
                self.line(line)

    def tell(self, gate: Gate) -> None:
        """Pass on what is new; a program that goes on from a checkpoint begins where it says."""
        with self._lock:
            step, total = self.step, self.total
        if total is not None and total != gate.total_steps:
            gate.set_steps(total)
        if step:
            gate.reach(step)


@contextlib.contextmanager
def _passed_on(process: subprocess.Popen[bytes], output: int, steps: _Steps) -> Iterator[None]:
    """The program's output goes where it would go, and its lines are looked at."""
    pairs = [(process.stdout, output), (process.stderr, 2)]
    threads = [
        threading.Thread(target=_pass_on, args=(pipe, number, steps.line), daemon=True)
        for pipe, number in pairs
        if pipe is not None
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(1.0)  # a grandchild may hold the pipe for ever


def _pass_on(pipe: IO[bytes], output: int, line: Callable[[str], None]) -> None:
    rest = b""
    while chunk := os.read(pipe.fileno(), 65536):
        left = memoryview(chunk)
        with contextlib.suppress(OSError):  # nobody reads it any more: it trains on
            while left:
                left = left[os.write(output, left) :]
        *lines, rest = re.split(rb"[\r\n]", rest + chunk)  # progress bars write no new lines
        for each in lines:
            line(each[-LONGEST_LINE:].decode(errors="replace"))
        rest = rest[-LONGEST_LINE:]
    line(rest.decode(errors="replace"))


@contextlib.contextmanager
def _forwarded() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """What a person or a system asks of us, the program is asked as well, as soon as it is there.

    Yields what is to be called with the program.
    """
    early: list[int] = []
    target: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: object = None) -> None:
        if target:
            _signal(target[0], number)
        else:
            early.append(number)

    def begin(process: subprocess.Popen[bytes]) -> None:
        target.append(process)
        for number in early:
            _signal(process, number)

    if threading.current_thread() is not threading.main_thread():
        yield begin  # only there signals can be caught
        return
    names = [each for each in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, each)]
    before = {each: signal.signal(getattr(signal, each), forward) for each in names}
    try:
        yield begin
    finally:
        for each, handler in before.items():
            signal.signal(getattr(signal, each), handler)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to the program and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        elif number != signal.SIGINT:  # on Windows Ctrl-C reaches all programs of a terminal
            process.terminate()
