"""The lock: one process at a time, whoever holds it is named, and it goes with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from io import FileIO
from pathlib import Path

import pytest

from ampere.core.lock import lock_file, lock_holder

HOLD = """
import sys
from io import FileIO
from ampere.core.lock import lock_file
file = FileIO(sys.argv[1], "r+")
lock_file(file)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who holds a lock")
def test_a_lock_is_held_until_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder, FileIO(path, "r+") as file:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert lock_holder(file) == holder.pid
        with pytest.raises(BlockingIOError):
            lock_file(file)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        lock_file(file)
        assert lock_holder(file) == os.getpid()
    assert os.listdir(tmp_path) == ["file"]  # nothing lies beside it


@pytest.mark.skipif(sys.platform == "win32", reason="flock")
def test_another_handle_that_is_closed_does_not_let_go_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with FileIO(path, "r+") as file, FileIO(path, "r+") as other:
        lock_file(file)
        FileIO(path, "r+").close()
        with pytest.raises(BlockingIOError):
            lock_file(other)
