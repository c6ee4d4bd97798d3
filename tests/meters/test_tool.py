"""Tools that are asked for a meter: whatever they do, there is an answer or one clear line."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from ampere.core.boundary.tool import MOST_BYTES
from ampere.errors import MeterError, MeterFault
from ampere.meters.tool import ask_tool
from processes import runs, until


def test_tools_cannot_hang_or_surprise(tmp_path: Path) -> None:
    begin_s = time.perf_counter()
    with pytest.raises(MeterFault, match=r"did not answer within 0\.1 s"):
        ask_tool(["sleep", "5"], 0.1)
    with pytest.raises(MeterError, match="is not installed here"):
        ask_tool([str(tmp_path / "nothing")], 1.0)
    with pytest.raises(MeterError, match="cannot be run"):
        ask_tool([str(tmp_path)], 1.0)
    with pytest.raises(MeterError, match="cannot be run"):
        ask_tool(["echo", "\0"], 1.0)
    assert time.perf_counter() - begin_s < 3


def test_an_answer_is_both_its_words_and_its_code() -> None:
    answer = ask_tool(["sh", "-c", "printf '\\377'; echo no >&2; exit 3"], 5.0)
    assert (answer.output, answer.errors, answer.code) == ("\ufffd", "no\n", 3)


@pytest.mark.parametrize("timeout_s", [float("nan"), 0.0, -1.0])
def test_no_time_at_all_is_a_fault(timeout_s: float) -> None:
    with pytest.raises(MeterFault, match="did not answer within"):
        ask_tool(["sleep", "5"], timeout_s)


def test_any_time_is_enough_for_a_quick_one() -> None:
    assert ask_tool(["echo", "quick"], float("inf")).output == "quick\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("then", ["wait", "exec >&- 2>&-; sleep 60"])
def test_what_a_tool_has_started_ends_with_it(tmp_path: Path, then: str) -> None:
    """A helper that stays behind holds the pipe, and would be asked for its battery for ever."""
    note = tmp_path / "pid"
    with pytest.raises(MeterFault, match="did not answer within"):
        ask_tool(["sh", "-c", f"sleep 60 & echo $! > {note}; {then}"], 0.3)
    pid = int(note.read_text())
    until(lambda: not runs(pid), "it was not ended")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_flood_is_stopped(tmp_path: Path) -> None:
    begin_s = time.perf_counter()
    note = tmp_path / "pid"
    with pytest.raises(MeterError, match=f"says more than {MOST_BYTES} bytes"):
        ask_tool(["sh", "-c", f"echo $$ > {note}; exec yes >&2"], 30.0)
    assert time.perf_counter() - begin_s < 10
    pid = int(note.read_text())
    until(lambda: not runs(pid), "it was not ended")


def test_much_on_both_pipes_is_no_deadlock() -> None:
    answer = ask_tool(["sh", "-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"], 10.0)
    assert (len(answer.output), len(answer.errors)) == (300_000, 300_000)


@pytest.mark.skipif(not hasattr(os, "getpgid"), reason="no process groups")
def test_a_tool_is_a_group_of_its_own() -> None:
    shown = ask_tool(["sh", "-c", "ps -o pgid= -p $$ || echo 0"], 5.0).output.strip()
    assert int(shown or 0) != os.getpgid(0)
