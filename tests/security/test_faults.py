"""Faults under load: commands and workers are killed, disks are full, clocks go back, two write.

Real commands in processes of their own. `AMPERE_KILLS` says how many are killed: five in every run
of the tests, 200 by `make faults`. Whatever happens to a command, nothing that it had written down
is lost, nothing of it is left running, and the same command goes on.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

import ampere
from ampere.acquisition.strategy import Strategy
from ampere.core.lock import lock_file
from ampere.devices.simulated import SimulatedDevice
from ampere.sittings.effort import Effort
from launcher import Ended, Launcher
from processes import until

from .tasks import (
    MODEL,
    Estimating,
    Evaluating,
    Metering,
    Profiling,
    Pruning,
    Reporting,
    Task,
    Telling,
    names,
    rows_of,
    whole_lines,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks processes up as on Linux")

KILLS = int(os.environ.get("AMPERE_KILLS", "5"))
THOROUGH = KILLS >= 100  # disks are full at every size, too
SEED = int(os.environ.get("AMPERE_SEED", time.time_ns() % 10**6))  # which moments


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as started:
        yield started


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> bytes:
    """A profile of the model on a simulated device."""
    folder = tmp_path_factory.mktemp("profile")
    done = launcher.run(*Profiling.arguments, folder=folder)
    assert done.code == 0, done.stderr
    return (folder / "p.ampere").read_bytes()


def seldom(*kinds: type[Task]) -> list[Any]:
    """Commands that write as others do: `make test-slow` tries them."""
    return [pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]


class Blow:
    """A moment to kill at: soon, sometime, or just when something is written.

    Args:
        chance: Decides.
        task: Who is killed.
        live: It is not.
    """

    def __init__(self, chance: random.Random, task: Task, live: bool) -> None:
        self._task = task
        self._writes = chance.choice((0, 0, 1, 2, 3, 5, 8, 13))
        self._delay_s = chance.uniform(0, 0.003 if self._writes else task.lasts_s)
        if live:
            self._writes, self._delay_s = 0, math.inf
        self._seen = self._look()
        self._due_s = math.inf if self._writes else time.monotonic() + self._delay_s
        self.kept = whole_lines(task.path)

    def __call__(self, pid: int) -> bool:
        """Whether it is time."""
        if self._writes and (now := self._look()) != self._seen:
            self._seen, self._writes = now, self._writes - 1
            if not self._writes:
                self._due_s = time.monotonic() + self._delay_s
        if time.monotonic() < self._due_s:
            return False
        self.kept = whole_lines(self._task.path)
        return True

    def _look(self) -> list[tuple[Path, int]]:
        sizes = []
        for folder, _, files in os.walk(self._task.folder):  # unlike rglob, while things vanish
            for path in (Path(folder), *(Path(folder, name) for name in files)):
                with contextlib.suppress(OSError):
                    sizes.append((path, path.stat().st_size))
        return sorted(sizes)


class Strikes:
    """Kills workers, one after the other, and never who asked them."""

    def __init__(self, chance: random.Random, launcher: Launcher, left: int) -> None:
        self._chance, self._launcher, self.left = chance, launcher, left
        self._hit: set[int] = set()
        self._seen_s: dict[int, float] = {}  # when each is struck

    def __call__(self, pid: int) -> bool:
        """Strike, if it is time."""
        time.sleep(0.02)
        for worker, command in self._launcher.started().items():
            if "ampere.devices.worker" not in command or worker in self._hit:
                continue
            now = time.monotonic()
            due_s = self._seen_s.setdefault(worker, now + self._chance.uniform(0, 5))
            if self.left and now >= due_s:
                os.kill(worker, signal.SIGKILL)
                self._hit.add(worker)
                self.left -= 1
        return False


def check_all_is_well(task: Task, launcher: Launcher, kept: bytes, kills: int) -> None:
    """Nothing written is lost, nothing runs on, and little is left lying about."""
    until(lambda: not launcher.started(), f"left running: {launcher.started()}", 20.0)
    assert whole_lines(task.path).startswith(kept)
    task.check()
    left = {name.split("/")[0] for name in task.made}
    assert all(name.startswith(".") for name in left), left
    assert len(left) <= kills, left


@pytest.mark.parametrize("kind", [Profiling, Telling, *seldom(Metering, Evaluating, Pruning)])
def test_a_command_that_is_killed_loses_nothing_and_goes_on(
    kind: type[Task], tmp_path: Path, launcher: Launcher, journal: bytes
) -> None:
    print(f"AMPERE_SEED={SEED}")
    chance = random.Random(f"{SEED} {kind.__name__}")
    left = max(1, round(kind.share * KILLS))
    for number in itertools.count():
        if not left:
            break
        task, kills, ended = kind(tmp_path / f"{number}", journal), 0, False
        while not ended:  # in spite of it all
            blow = Blow(chance, task, live=left == 0)
            end = launcher.interrupt(*task.arguments, folder=task.folder, when=blow)
            ended, killed = end.code == 0, end.code == -signal.SIGKILL
            assert ended or killed, end.stderr
            left, kills = left - killed, kills + killed
            check_all_is_well(task, launcher, blow.kept, kills)
            if isinstance(task, Profiling):
                check_what_was_reported(task, end)
            if ended:
                task.check_done(end)


def check_what_was_reported(task: Task, end: Ended) -> None:
    """Rows that a progress line has counted are in the journal."""
    reported = [int(done) for done in re.findall(r"^(\d+)/\d+ ", end.stderr, re.MULTILINE)]
    assert max(reported, default=0) <= len(rows_of(task.path) if task.path.exists() else [])


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_a_network_at_most(
    tmp_path: Path, launcher: Launcher, journal: bytes
) -> None:
    print(f"AMPERE_SEED={SEED}")
    left = max(1, round(Metering.share * KILLS))
    strikes = Strikes(random.Random(f"{SEED} workers"), launcher, left)
    for number in itertools.count():
        if not strikes.left:
            break
        task = Metering(tmp_path / f"{number}", journal)
        end = launcher.interrupt(*task.arguments, folder=task.folder, when=strikes)
        assert (end.code, len(end.errors)) in ((0, 0), (1, 1)), end.stderr
        assert "Traceback" not in end.stderr
        check_all_is_well(task, launcher, b"", 0)
        kept = whole_lines(task.path)
        again = launcher.run(*task.arguments, folder=task.folder)
        assert again.code == 0, again.stderr
        check_all_is_well(task, launcher, kept, 0)


def sizes_of(kind: type[Task], folder: Path, launcher: Launcher, journal: bytes) -> list[int]:
    """Bytes that files may grow to: each end of a line, and between them, of all it writes."""
    if not THOROUGH:
        return list(kind.full)
    task = kind(folder, journal)
    assert launcher.run(*task.arguments, folder=task.folder).code == 0
    ends = {0, 1}
    for path in filter(Path.is_file, folder.rglob("*")):
        found = [match.end() for match in re.finditer(b"\n|$", path.read_bytes())]
        ends |= {0, *found[:4], *found[4 :: max(1, len(found) // 8)]}
    near = sorted({size + more for size in ends for more in (-1, 0, 1) if size + more >= 0})
    return sorted({*near, *((low + high) // 2 for low, high in itertools.pairwise(near))})


@pytest.mark.parametrize(
    "kind", [Profiling, Estimating, Reporting, *seldom(Telling, Evaluating, Pruning)]
)
def test_a_full_disk_is_told_in_a_line_and_harms_nothing(
    kind: type[Task], tmp_path: Path, launcher: Launcher, journal: bytes
) -> None:
    for most_bytes in sizes_of(kind, tmp_path / "whole", launcher, journal):
        task = kind(tmp_path / f"{most_bytes}", journal)
        kept = whole_lines(task.path)
        end = launcher.run(*task.arguments, folder=task.folder, most_bytes=most_bytes)
        told = f"with {most_bytes} bytes: {end.stderr}"
        assert "Traceback" not in end.stderr, told
        assert (end.code, len(end.errors)) in ((0, 0), (1, 1)), told
        if most_bytes == 0:  # a cache that cannot be written is no error
            assert end.code == (0 if kind is Estimating else 1), told
            assert names(task.folder) == task.before
        check_all_is_well(task, launcher, kept, 0)
        kept = whole_lines(task.path)
        again = launcher.run(*task.arguments, folder=task.folder)
        assert again.code == 0, f"after {most_bytes} bytes: {again.stderr}"
        check_all_is_well(task, launcher, kept, 0)
        task.check_done(again)


def test_a_clock_that_is_set_back_costs_no_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_s, steps = 1.9e9, 0

    def backwards() -> float:
        nonlocal clock_s, steps
        steps += 1
        clock_s -= 3600.0
        return clock_s

    monkeypatch.setattr(time, "time", backwards)
    path = tmp_path / "back.ampere"
    for _ in range(2):  # and goes on
        profile = ampere.profile(
            MODEL,
            path=path,
            device=SimulatedDevice("xavier"),
            strategy=Strategy(max_measurements=8),
            effort=Effort(burst_s=0.02, warmup_s=0.0, min_rounds=2, max_rounds=2),
        )
    assert steps > 10
    rows = rows_of(path)
    for row in rows:
        assert row.failed is None
        assert row.time_s_per_step is not None and row.time_s_per_step > 0
        assert row.energy_j_per_step is not None and row.energy_j_per_step > 0
        assert row.cost_s is not None and row.cost_s >= 0
        assert all(moment > 0 for moment in row.bursts["at"])
        assert all(value > 0 for value in (*row.bursts["time_s"], *row.bursts["drift"]))
    assert profile.profiling_s > 0
    estimate = profile.estimate(MODEL)
    assert estimate.energy_j > 0 and estimate.time_s > 0


@pytest.mark.parametrize("kind", [Profiling, *seldom(Telling, Evaluating)])
def test_the_second_writer_is_refused_in_a_line(
    kind: type[Task], tmp_path: Path, launcher: Launcher, journal: bytes
) -> None:
    task = kind(tmp_path / "task", journal)
    task.path.write_bytes(journal)
    with FileIO(task.path, "r+") as held:
        lock_file(held)
        end = launcher.run(*task.arguments, folder=task.folder)
        assert (end.code, end.stdout) == (1, "")
        (error,) = end.errors
        assert f"is in use by another process (pid {os.getpid()})" in error
    assert task.path.read_bytes() == journal
    assert launcher.run(*task.arguments, folder=task.folder).code == 0


def test_tellers_at_the_same_time_lose_nothing_that_they_reported(
    tmp_path: Path, journal: bytes
) -> None:
    row = json.loads(journal.splitlines()[1])
    tellers, each = 3, 20

    def tell(teller: int) -> tuple[int, str]:
        rows = [{**row, "energy_j_per_step": 1.0 + teller + i / 100} for i in range(each)]
        text = "".join(json.dumps(one) + "\n" for one in rows)
        for _ in range(200):
            done = subprocess.run(
                [sys.executable, "-m", "ampere", "tell", "-", "--profile", "p.ampere"],
                input=text,
                capture_output=True,
                text=True,
                cwd=tmp_path,
                check=False,
            )
            if done.returncode == 0:
                return teller, done.stdout
            assert "Traceback" not in done.stderr
            (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert "is in use by another process" in error
        raise AssertionError("it is never its turn")

    with ThreadPoolExecutor(tellers) as pool:
        reported = list(pool.map(tell, range(tellers)))
    told = Counter(found.energy_j_per_step for found in rows_of(tmp_path / "p.ampere"))
    assert told == {1.0 + teller + i / 100: 1 for teller, _ in reported for i in range(each)}
    assert all("added to p.ampere" in text for _, text in reported)
