"""Tools: run to an end that comes, whatever they do."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ampere.core.boundary.tool import ToolAnswer, run_tool
from processes import runs, until

PYTHON = [sys.executable, "-I", "-S", "-u", "-c"]


def test_a_tool_is_fed_and_run_to_its_end() -> None:
    script = (
        "import sys; print(len(sys.stdin.read())); print('a\\nb', file=sys.stderr); sys.exit(3)"
    )
    answer = run_tool([*PYTHON, script], 20.0, b"x" * 300_000)
    assert answer == ToolAnswer(3, "300000\n", "a\nb\n")
    assert answer.complaints == ["a", "b"]
    assert ToolAnswer(1, "only this\n", "").complaints == ["only this"]
    with pytest.raises(FileNotFoundError):
        run_tool(["/no/such/command"], 20.0)


def test_one_that_takes_too_long_is_ended_with_what_it_started() -> None:
    script = "import subprocess; subprocess.run(['sleep', '60'])"
    start_s = time.monotonic()
    with pytest.raises(TimeoutError, match=r"did not answer within 0\.5 s"):
        run_tool([*PYTHON, script], 0.5)
    assert time.monotonic() - start_s < 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_stays_behind_holds_nobody_up_and_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    answer = run_tool(["sh", "-c", f"sleep 60 & echo $! > {note}; echo done"], 20.0)
    assert answer == ToolAnswer(0, "done\n", "")
    pid = int(note.read_text())
    until(lambda: not runs(pid), "it was not ended")
