"""Standard output is for the answer alone: whoever else writes to it, full or closed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.runner import ampere_process
from fakes import plain_model

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell, and /dev/full")

NOISY = """
import atexit
import ctypes
import os
import subprocess
import sys

from torch import nn

libc = ctypes.CDLL(None)


def noise(when):
    libc.printf(f"printf {when}\\n".encode())  # kept by C until it has enough, or ends
    os.write(1, f"write {when}\\n".encode())
    subprocess.run(["echo", "child", when], check=True)
    print("print", when)
    sys.__stdout__.write(f"__stdout__ {when}\\n")


def net():
    noise("now")
    atexit.register(noise, "at the end")
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


net.input = "4"
"""


def shell(line: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What `ampere` does in a line of a shell."""
    text = line.replace("ampere", f"{sys.executable} -m ampere", 1)
    return subprocess.run(
        ["sh", "-c", text], capture_output=True, text=True, timeout=240, cwd=cwd, check=False
    )


def test_json_is_alone_whatever_a_model_writes(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    done = ampere_process("layers", "noisy.py:net", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["params"] == 51
    for writer in ("printf", "write", "child", "print", "__stdout__"):
        for when in ("now", "at the end"):
            assert f"{writer} {when}\n" in done.stderr


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ampere zoo > /dev/full", "No space left"),
        ("ampere --help > /dev/full", "No space left"),
        ("ampere zoo >&-", "Bad file descriptor"),
    ],
)
def test_an_answer_that_nobody_gets_is_an_error(line: str, reason: str) -> None:
    done = shell(line)
    assert (done.returncode, done.stdout) == (1, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"error: standard output cannot be written: {reason}")


def test_standard_input_may_be_closed(told: Path) -> None:
    done = shell(f"ampere estimate --layers - --profile {told} <&-")
    assert (done.returncode, done.stdout) == (1, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith("error: standard input cannot be read: ")


def test_standard_error_may_be_closed_or_full(told: Path, tmp_path: Path) -> None:
    rows = [json.dumps(layer.to_json()) for layer in plain_model(16)]
    (tmp_path / "layers.jsonl").write_text("\n".join(rows))
    told.write_bytes(told.read_bytes()[:-20])  # a line of warning
    line = f"ampere estimate --layers {tmp_path}/layers.jsonl --profile {told} --json"
    for where in ("<&- 2>&-", "2>/dev/full"):
        done = shell(f"{line} {where}")
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["steps"] == 1


@pytest.mark.parametrize(
    "settings",
    [
        "COLUMNS=99999999999999999999 TERM=nonsense",
        "COLUMNS=1 LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0",
        "-u HOME -u TERM -u LANG",
    ],
)
def test_any_terminal(settings: str) -> None:
    done = shell(f"env {settings} ampere zoo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "zoo:lenet5" in done.stdout
