"""CPU-seconds of a process with all that it started: living, ended, and grandchildren."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ampere.errors import MeterError
from ampere.meters import process_tree
from ampere.meters.drivers.cpu import CpuMeter
from ampere.meters.drivers.tree import TreeMeter
from ampere.meters.process_tree import Process, ProcessTree

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux tells")

SPIN = "import time\nwhile time.process_time() < 0.15: pass\n"
SPIN_BELOW = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {SPIN!r}])\n"
SPIN_AND_STAY = SPIN + "print(flush=True)\nimport sys\nsys.stdin.read()\n"


@pytest.mark.parametrize("code", [SPIN, SPIN_BELOW])
def test_a_process_that_has_ended_is_counted(code: str) -> None:
    tree = ProcessTree()
    before_s = tree.cpu_s()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert tree.cpu_s() - before_s >= 0.15 - 0.01  # ticks


def test_one_that_still_runs_is_counted_and_not_twice() -> None:
    tree, alone = ProcessTree(), CpuMeter(0.0, 1.0)
    before_s, before_j = tree.cpu_s(), alone.read().energy_j
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", SPIN_AND_STAY], **pipes)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        running_s = tree.cpu_s() - before_s
        assert running_s >= 0.15
    finally:
        child.communicate(b"")
    ended_s = tree.cpu_s() - before_s
    assert running_s <= ended_s <= running_s + 0.15
    assert alone.read().energy_j - before_j < 0.15  # without children it is this process alone


def test_a_tick_that_is_missing_when_a_child_ends_is_not_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The root has waited for others before; a child's 0.158 s are 0.15 s in ticks."""
    here = {1: Process(0, 10, 1.0, 7.0), 2: Process(1, 11, 0.158, 0.0)}
    monkeypatch.setattr(process_tree, "look_at", lambda pid: here.get(pid))
    monkeypatch.setattr(process_tree, "children_of", lambda pid: [2] if pid == 1 else [])
    tree = ProcessTree(1)
    assert tree.cpu_s() == pytest.approx(8.158)
    del here[2]
    here[1] = Process(0, 10, 1.0, 7.15)
    assert tree.cpu_s() == pytest.approx(8.158)
    here[1] = Process(0, 10, 1.5, 7.15)
    assert tree.cpu_s() == pytest.approx(8.65)


def test_another_process_may_be_the_root() -> None:
    tree = ProcessTree(os.getppid())
    assert tree.cpu_s() >= ProcessTree().cpu_s() - 0.05


def test_a_tree_whose_root_is_gone_stays_where_it_was() -> None:
    child = subprocess.Popen([sys.executable, "-c", SPIN_AND_STAY], stdin=subprocess.PIPE)
    tree = ProcessTree(child.pid)
    seen_s = tree.cpu_s()
    child.communicate(b"")
    assert tree.cpu_s() >= seen_s


def test_a_system_that_does_not_tell_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "PROC", tmp_path)
    with pytest.raises(MeterError, match="told by Linux alone"):
        TreeMeter()
