"""What a worker has started ends with it, however that is: nothing is left behind on a device."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence

import pytest

from ampere.core.workloads import REFERENCE
from ampere.devices.local import LocalDevice
from ampere.devices.worker_process import NoAnswer, WorkerProcess
from ampere.errors import MeasurementFailed
from devices.talk import Talk
from frameworks.fake_runtime import IMPORTED
from processes import MARK, marked, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks processes up as on Linux")

LEAVES = "AMPERE_TEST_LEAVES"
# A worker whose networks start a process; if it is asked to, it ends in the third step.
STARTS = f"""
{IMPORTED}
import os, subprocess

class Starting(fake_runtime.FakeTrainer):
    def __init__(self, layers):
        super().__init__(layers)
        subprocess.Popen(["sleep", "600"])
        self.calls = 0
    def step(self):
        self.calls += 1
        if {LEAVES!r} in os.environ and self.calls > 2:
            os._exit(3)

fake_runtime.FakeTrainer = Starting
fake_runtime.stand_in()
"""
COMMAND = [sys.executable, "-u", "-c", STARTS]

HOST = f"""
{IMPORTED}
from ampere.devices.local import LocalDevice
from ampere.core.workloads import REFERENCE
LocalDevice._command = lambda device: sys.argv[1:]
device = LocalDevice(meter="cpu")
device.load(REFERENCE)
print("loaded", flush=True)
sys.stdin.read()
"""


class Starting(LocalDevice):
    """This machine with such a worker."""

    def _command(self) -> Sequence[str]:
        return COMMAND


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Whatever is started during the test has it; none of it is left after a moment."""
    text = uuid.uuid4().hex
    monkeypatch.setenv(MARK, text)
    yield text
    try:
        until(lambda: not marked(text), f"left behind: {marked(text)}", 5.0)
    finally:
        for pid in marked(text):
            os.kill(pid, signal.SIGKILL)


def until_it_sleeps(mark: str) -> None:
    """A process has neither environment nor command for a moment while it becomes another one."""
    until(lambda: any("sleep" in it for it in marked(mark).values()), "it does not start")


def test_of_a_worker_that_crashes_and_of_one_that_is_closed(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Starting(meter="cpu") as device:
        with monkeypatch.context() as patch:
            patch.setenv(LEAVES, "yes")
            loaded = device.load(REFERENCE)
        until_it_sleeps(mark)
        with pytest.raises(MeasurementFailed, match="exit code 3"):
            device.burst(loaded.handle, 5)
        until(lambda: not marked(mark), "left behind by a crash", 5.0)
        device.load(REFERENCE)
        until_it_sleeps(mark)


def test_of_a_host_that_is_killed(mark: str) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, *COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with host:
        assert host.stdout is not None and host.stdout.readline() == "loaded\n"
        until_it_sleeps(mark)
        host.kill()


def test_of_a_worker_in_somebody_elses_group(mark: str) -> None:
    """As ssh and adb start it; Talk does not give it a session either."""
    with Talk(COMMAND, os.environ) as talk:
        talk.ask(do="open", meter=None, settings={"threads": 1})
        talk.ask(do="load", workload=REFERENCE.to_json())
        until_it_sleeps(mark)
        assert os.getpgid(talk.process.pid) == talk.process.pid != os.getpgrp()
        assert talk.process.stdin is not None
        talk.process.stdin.close()
        talk.process.wait(10)


@pytest.mark.parametrize("ends", ["sys.exit(3)", "os.kill(os.getpid(), 9)", "time.sleep(600)"])
def test_of_any_command(ends: str, mark: str) -> None:
    script = f"import os, subprocess, sys, time; subprocess.Popen(['sleep', '600']); {ends}"
    process = WorkerProcess([sys.executable, "-I", "-S", "-c", script])
    until_it_sleeps(mark)
    start_s = time.monotonic()
    with pytest.raises(NoAnswer) as told:
        process.ask(2.0 if "sleep" in ends else 60.0, {})
    assert time.monotonic() - start_s < 10  # though its pipe is still held
    assert told.value.exit_code == {"s": 3, "o": -signal.SIGKILL, "t": None}[ends[0]]
