"""Worker process: a command, here or far away, that answers requests as lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any

from ampere import errors
from ampere.errors import AmpereError, Crashed, DeviceError, Hung, MeasurementFailed, OutOfMemory

END_S = 5.0  # between a worker's last word and its end


class NoAnswer(Exception):
    """A request got no answer: the process ended, or said nothing for too long.

    Args:
        exit_code: What the command ended with, None if it had not.
        complaint: The last line of its standard error.
        patience_s: How long the answer was waited for.
    """

    def __init__(self, exit_code: int | None, complaint: str, patience_s: float) -> None:
        super().__init__(complaint)
        self.exit_code = exit_code
        self.complaint = complaint
        self.patience_s = patience_s

    def as_failure(self) -> MeasurementFailed:
        """What it says of the workload, if the connection held."""
        if self.exit_code is None:
            return Hung(f"it hung: no answer within {self.patience_s:.0f} s")
        return failure_of_ending(self.exit_code, self.complaint)


class WorkerProcess:
    """A command that was started, and its answers; one that gave none is ended.

    Raises:
        DeviceError: The command cannot be run.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (until it ends)
        try:
            # A session of its own: Ctrl-C reaches only us, and we decide what becomes of it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            self._complaints.close()
            raise DeviceError(f"{command[0]} cannot be run: {error.strerror}") from None
        self.answers: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(
            target=_pump, args=(self._process.stdout, self.answers), daemon=True
        )
        reader.start()

    @property
    def pid(self) -> int:
        """The command's process, on this side."""
        return self._process.pid

    def ask(self, patience_s: float, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request; whatever keeps it from coming ends the process.

        Raises:
            NoAnswer: It ended, or took too long.
            DeviceError: It said something that is no answer.
            AmpereError: The error that it answered with, of the type that it had there.
        """
        stdin = self._process.stdin
        assert stdin is not None  # it is a pipe
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = self.answers.get(timeout=patience_s)
        except queue.Empty:
            raise self._silence(None, patience_s) from None
        except OSError:  # its end of the pipe is closed
            line = ""
        except BaseException:  # Ctrl-C: the answer under way must not be taken for the next one's
            self.end()
            raise
        if not line:
            raise self._silence(self._exit_code(), patience_s)
        answer = parse_answer(line)
        if answer is None:
            self.end()  # who knows what its next line would answer
            raise DeviceError(f"the worker said {line[:80]!r}, which is no answer")
        if "error" in answer:
            raise _reported_error(answer)
        return answer

    def end(self) -> None:
        """Kill it, and let go of what it holds; ending twice is harmless."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._complaints):
            with contextlib.suppress(OSError):  # what was not sent yet never will be
                if stream is not None:
                    stream.close()

    @property
    def ended(self) -> bool:
        """Whether `end` was called, by whom it belongs to or for want of an answer."""
        return self._complaints.closed

    def _silence(self, exit_code: int | None, patience_s: float) -> NoAnswer:
        complaint = _last_line(self._complaints)
        self.end()
        return NoAnswer(exit_code, complaint, patience_s)

    def _exit_code(self) -> int | None:
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return None


def parse_answer(line: str) -> dict[str, Any] | None:
    """The object in a line; None if it is no JSON object."""
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def failure_of_ending(exit_code: int, complaint: str) -> MeasurementFailed:
    """How a process ended; a shell on the way adds 128 to the number of a signal."""
    number = -exit_code if exit_code < 0 else exit_code - 128 if 128 < exit_code < 160 else 0
    if number == signal.SIGKILL:
        return OutOfMemory("it was killed, most likely for lack of memory")
    if number in {int(each) for each in signal.Signals}:
        return Crashed(f"it crashed with {signal.Signals(number).name}")
    why = f" ({complaint})" if complaint else ""
    return Crashed(f"the worker process ended with exit code {exit_code}{why}")


def _reported_error(answer: Mapping[str, Any]) -> AmpereError:
    """The error that an answer reports, of the type that it had there."""
    kind = getattr(errors, str(answer["error"]), None)
    if not (isinstance(kind, type) and issubclass(kind, AmpereError)):
        kind = MeasurementFailed
    return kind(str(answer.get("message")))


def _pump(stream: IO[str], answers: queue.Queue[str]) -> None:
    """Hand on lines as they come; an empty one says that the worker has ended."""
    with stream:
        for line in stream:
            if line.endswith("\n"):  # else it ended in the middle of a word
                answers.put(line)
    answers.put("")


def _last_line(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""
