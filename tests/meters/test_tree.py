"""The meter `tree`: modelled joules of a process and its descendants."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest

from ampere.errors import MeterError
from ampere.meters import process_tree
from ampere.meters.base import Meter, Provenance
from ampere.meters.calibration import Calibration, calibrated, store
from ampere.meters.drivers.tree import TreeMeter
from meters.contract import MeterContract

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")

SPIN = """
import time
end = time.process_time() + {}
while time.process_time() < end: pass
"""


def spin(cpu_s: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", SPIN.format(cpu_s)])


class TestContract(MeterContract):
    driver: ClassVar[type[Meter]] = TreeMeter

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"idle_w": 2.0, "active_w": 5.0}


def test_counts_children_that_were_seen_and_those_that_were_not() -> None:
    meter = TreeMeter(idle_w=0.0, active_w=1.0)
    child = spin(0.3)
    while meter.read().energy_j < 0.1:  # while it lives
        time.sleep(0.02)
    child.wait(60)
    seen = meter.read().energy_j
    assert seen >= 0.28
    spin(0.2).wait(60)  # between two looks
    assert meter.read().energy_j >= seen + 0.18
    assert meter.provenance is Provenance.MODELLED


def test_what_was_seen_of_a_child_is_not_counted_twice() -> None:
    meter = TreeMeter(idle_w=0.0, active_w=1.0)
    before = os.times()
    child = spin(0.3)
    while child.poll() is None:
        meter.read()
        time.sleep(0.02)
    after = os.times()
    used = sum(after[:4]) - sum(before[:4])
    assert meter.read().energy_j == pytest.approx(used, abs=0.06)


def test_another_process_and_what_became_of_it() -> None:
    child = spin(0.2)
    meter = TreeMeter(pid=child.pid, idle_w=0.0, active_w=1.0)
    while child.poll() is None and meter.read().energy_j < 0.1:
        time.sleep(0.02)
    child.wait(60)
    last = meter.read().energy_j
    assert last > 0
    assert meter.read().energy_j == last  # what was spent stays spent
    with pytest.raises(MeterError, match="there is no process"):
        TreeMeter(pid=child.pid)


def test_a_kernel_that_lists_no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in process_tree.asked_children(os.getpid())
        assert child.pid in process_tree.children_of(os.getpid())
    finally:
        child.communicate(b"\n", timeout=60)


@pytest.mark.parametrize("pid", [-1, 0.5])
def test_what_is_no_process(pid: float) -> None:
    with pytest.raises(MeterError, match="must be the number of a process"):
        TreeMeter(pid=pid)


def test_without_a_list_of_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_tree, "PROC", tmp_path)
    assert "use the meter cpu" in str(TreeMeter.obstacle())
    with pytest.raises(MeterError, match="use the meter cpu"):
        TreeMeter()


def test_takes_the_watts_that_cpu_was_calibrated_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    store(Calibration(idle_w=5.0, active_w=3.0, against="a plug", when="2026-11-18", error=0.01))
    assert calibrated("tree", {"pid": 7.0}) == {"pid": 7.0, "idle_w": 5.0, "active_w": 3.0}
