"""Worker process: a command, here or far away, that answers requests as lines of JSON.

Whatever runs there may be broken, or somebody else's: no line and no complaint of it is kept beyond
a limit, nothing is waited for without an end, and what it started ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.tool import end_group, ended_with, start, streams
from ampere.core.page import printable
from ampere.errors import (
    AmpereError,
    Crashed,
    DataError,
    DeviceError,
    Hung,
    MeasurementFailed,
    MeterError,
    MeterFault,
    ModelError,
    OutOfMemory,
)

END_S = 5.0  # between a worker's last word and its end
LOOK_S = 0.5  # between looks whether it is still there
LONGEST = 2**20  # bytes of a line that can be an answer
UNASKED = 4  # lines that wait to be read; there is one answer a request
LAST_WORDS = 4096  # bytes of a complaint
MESSAGE = 1000  # characters of an error's message
ENDED, TOO_LONG = b"", b"too long"  # instead of a line; those end with a newline

# What a worker may say that went wrong; how it ended is seen from here.
REPORTED: Mapping[str, type[AmpereError]] = {
    kind.__name__: kind
    for kind in (ModelError, MeterError, MeterFault, DeviceError, MeasurementFailed, OutOfMemory)
}


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


class Tail:
    """The end of what a process writes, read all the while."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def line(self) -> str:
        """The last line; of a process that has ended, it is all there."""
        self._reader.join(1.0)  # no longer: what it started may hold its end of the pipe
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return printable(lines[-1].strip())[:200] if lines else ""

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._stream as stream:
            while part := os.read(stream.fileno(), 1 << 16):
                self._kept = (self._kept + part)[-LAST_WORDS:]


class WorkerProcess:
    """A command that was started, and its answers; one that gave none is ended.

    Raises:
        DeviceError: The command cannot be run.
    """

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = start(command)
        except OSError as error:
            raise DeviceError(f"{command[0]} cannot be run: {error.strerror}") from None
        stdin, stdout, stderr = streams(self._process)
        self.ended = False  # by whom it belongs to, or for want of an answer
        self.answers: queue.Queue[bytes] = queue.Queue(UNASKED)
        self._requests: queue.Queue[bytes] = queue.Queue()
        self._asked = 0
        self._complaints = Tail(stderr)
        threading.Thread(target=_pump, args=(stdout, self.answers), daemon=True).start()
        threading.Thread(
            target=_feed, args=(stdin, self._requests, self.answers), daemon=True
        ).start()

    @property
    def pid(self) -> int:
        """The command's process, on this side."""
        return self._process.pid

    def ask(self, patience_s: float, request: Mapping[str, Any]) -> Fields:
        """The answer to a request; whatever keeps it from coming ends the process.

        Raises:
            NoAnswer: It ended, or took too long.
            DeviceError: It said something that is no answer, or none to this request.
            AmpereError: The error that it answered with, of the type that it had there.
        """
        self._asked += 1
        try:
            self._requests.put(json.dumps({"id": self._asked, **request}).encode() + b"\n")
            line = self._next(patience_s)
        except queue.Empty:
            raise self._silence(None, patience_s) from None
        except BaseException:  # Ctrl-C: the answer under way must not be taken for the next one's
            self.end()
            raise
        if line == ENDED:
            raise self._silence(self._exit_code(), patience_s)
        answer = self._read(line)
        if "error" in answer:
            raise self._reported(answer)
        return answer

    def end(self) -> None:
        """Kill it and all that it started; ending twice is harmless."""
        if not self.ended:
            self.ended = True
            end_group(self._process)
            self._requests.put(ENDED)

    def refuse(self, why: str) -> DeviceError:
        """End it for what it said: who knows what its next line would answer."""
        self.end()
        return DeviceError(f"the worker said {why}")

    def _next(self, patience_s: float) -> bytes:
        """The next line; of a process that has ended, whoever holds its pipe says no more."""
        end_s = time.monotonic() + patience_s
        while (left_s := end_s - time.monotonic()) > LOOK_S:
            with contextlib.suppress(queue.Empty):
                return self.answers.get(timeout=LOOK_S)
            if ended_with(self._process) is not None:
                with contextlib.suppress(queue.Empty):
                    return self.answers.get(timeout=LOOK_S)
                return ENDED
        return self.answers.get(timeout=max(left_s, 0.0))

    def _read(self, line: bytes) -> Fields:
        if line == TOO_LONG:
            raise self.refuse(f"more than {LONGEST} bytes in a line, which is no answer")
        quoted = repr(line[:80].decode(errors="replace"))
        try:
            answer = Fields(parse_json(line))
            number = answer.whole("id")
        except DataError:
            raise self.refuse(f"{quoted}, which is no answer") from None
        if number != self._asked:
            raise self.refuse(f"{quoted}, which is no answer to request {self._asked}")
        return answer

    def _reported(self, answer: Fields) -> AmpereError:
        try:
            return reported_error(answer)
        except DataError as error:
            return self.refuse(f"what cannot be: {error}")

    def _silence(self, exit_code: int | None, patience_s: float) -> NoAnswer:
        self.end()
        return NoAnswer(exit_code, self._complaints.line(), patience_s)

    def _exit_code(self) -> int | None:
        """What it ends with after its last word; None if it does not."""
        end_s = time.monotonic() + END_S
        while (code := ended_with(self._process)) is None and time.monotonic() < end_s:
            time.sleep(0.01)
        return code


def failure_of_ending(exit_code: int, complaint: str) -> MeasurementFailed:
    """How a process ended; a shell on the way adds 128 to the number of a signal."""
    number = -exit_code if exit_code < 0 else exit_code - 128 if 128 < exit_code < 160 else 0
    if number == signal.SIGKILL:
        return OutOfMemory("it was killed, most likely for lack of memory")
    if number in {int(each) for each in signal.Signals}:
        return Crashed(f"it crashed with {signal.Signals(number).name}")
    why = f" ({complaint})" if complaint else ""
    return Crashed(f"the worker process ended with exit code {exit_code}{why}")


def reported_error(answer: Fields) -> AmpereError:
    """The error that an answer reports, of the type that it had there if a worker may say so."""
    kind = REPORTED.get(answer.text("error", most=MESSAGE), MeasurementFailed)
    message = printable(" ".join(answer.text("message").split()))
    return kind(message[:MESSAGE] or "it does not say why")


def _feed(stream: IO[bytes], requests: queue.Queue[bytes], answers: queue.Queue[bytes]) -> None:
    """Send requests, from a thread of its own: who does not read them must not hold us up."""
    try:
        with stream:
            while line := requests.get():
                stream.write(line)
                stream.flush()
    except OSError:  # its end of the pipe is closed
        with contextlib.suppress(queue.Full):
            answers.put_nowait(ENDED)


def _pump(stream: IO[bytes], answers: queue.Queue[bytes]) -> None:
    """Hand on lines as they come; an empty one says that the worker has ended.

    Once more of them wait than were asked for, no more are read: the first that waits is told.
    """
    with contextlib.suppress(queue.Full), stream:
        while line := stream.readline(LONGEST + 1):
            if len(line) > LONGEST:
                answers.put_nowait(TOO_LONG)
                return
            if line.endswith(b"\n"):  # else it ended in the middle of a word
                answers.put_nowait(line)
        answers.put_nowait(ENDED)
