"""A process that answers lines of JSON: its answers, its errors, its silence and its end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.devices.worker_process import NoAnswer, WorkerProcess, failure_of_ending
from ampere.errors import Crashed, DeviceError, Hung, MeasurementFailed, MeterFault, OutOfMemory

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as on Linux and macOS")

Start = Callable[[str], WorkerProcess]
ANSWERS = """import json, sys
def say(**row): print(json.dumps({"id": request["id"], **row}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    """


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that run a script, and ends them."""
    started: list[WorkerProcess] = []

    def run(script: str) -> WorkerProcess:
        started.append(WorkerProcess([sys.executable, "-I", "-S", "-u", "-c", script]))
        return started[-1]

    yield run
    for process in started:
        process.end()


def test_every_request_has_its_answer(start: Start) -> None:
    process = start(ANSWERS + "say(twice=2 * request['n'])")
    assert [process.ask(30.0, {"n": n}).whole("twice") for n in range(5)] == [0, 2, 4, 6, 8]
    assert not process.ended
    os.kill(process.pid, 0)
    process.end()
    process.end()
    assert process.ended
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.parametrize("error", [OutOfMemory, MeterFault, MeasurementFailed])
def test_an_error_keeps_its_type_and_the_process_goes_on(start: Start, error: type) -> None:
    process = start(ANSWERS + f"say(error='{error.__name__}', message='so')")
    for _ in range(2):
        with pytest.raises(error, match=r"^so$") as caught:
            process.ask(30.0, {})
        assert type(caught.value) is error
    assert not process.ended


def test_what_is_no_answer_ends_it(start: Start) -> None:
    process = start(ANSWERS + "print('hello', flush=True)")
    with pytest.raises(DeviceError, match=r"'hello.*', which is no answer"):
        process.ask(30.0, {})
    assert process.ended


def test_silence_ends_it_and_is_a_hang(start: Start) -> None:
    process = start("import time; time.sleep(60)")
    with pytest.raises(NoAnswer) as caught:
        process.ask(0.2, {})
    assert caught.value.exit_code is None
    assert process.ended
    failure = caught.value.as_failure()
    assert (type(failure), str(failure)) == (Hung, "it hung: no answer within 0 s")


def test_an_end_says_its_code_and_its_last_words(start: Start) -> None:
    process = start(ANSWERS + "print('first', file=sys.stderr); sys.exit('it broke')")
    with pytest.raises(NoAnswer) as caught:
        process.ask(30.0, {})
    assert (caught.value.exit_code, caught.value.complaint) == (1, "it broke")
    assert process.ended
    failure = caught.value.as_failure()
    assert type(failure) is Crashed
    assert str(failure) == "the worker process ended with exit code 1 (it broke)"


PYTHON = [sys.executable, "-I", "-S", "-u", "-c"]


@pytest.mark.parametrize(
    ("exit_code", "failure"),
    [
        (-signal.SIGKILL, OutOfMemory),
        (128 + signal.SIGKILL, OutOfMemory),
        (-signal.SIGSEGV, Crashed),
        (128 + signal.SIGABRT, Crashed),
        (0, Crashed),
        (3, Crashed),
    ],
)
def test_only_a_kill_is_a_lack_of_memory(exit_code: int, failure: type) -> None:
    assert type(failure_of_ending(exit_code, "out of memory, says the last line")) is failure


@given(st.integers(-200, 400), st.text())
def test_however_it_ends_one_line_tells(code: int, complaint: str) -> None:
    line = " ".join(complaint.split())
    assert str(failure_of_ending(code, line)).count("\n") == 0
