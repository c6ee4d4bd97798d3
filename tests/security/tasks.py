"""Tasks: commands with a folder to work in, and what must be so however they ended."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

from ampere.records.journal import JournalWarning, read_journal
from ampere.records.measurement import Measurement
from launcher import Ended
from processes import ACCEPT_BUSY

MODEL = "zoo:lenet5(channels=[2, 3], hidden=[8, 6])"
SIMULATED = ("--device", "simulated:xavier")
FEW = ("--measurements", "6")
METER = "fake:step_j=1,step_s=1"
METERED = ("--device", "local", "--meter", METER, "--burst-s", "0.01", ACCEPT_BUSY)


def rows_of(path: Path) -> list[Measurement]:
    """The measurements of a journal, which must read; its last line may be torn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JournalWarning)
        return read_journal(path)[1]


def whole_lines(path: Path) -> bytes:
    """What nobody may lose."""
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class Task:
    """A command with a folder to work in, and what must be so when it has ended.

    Args:
        folder: Its own.
        journal: A profile that is there before it starts.
    """

    arguments: tuple[str, ...] = ()
    profile = "p.ampere"
    share = 0.2  # of all kills
    lasts_s = 2.5  # roughly
    full = (0,)  # bytes that files may grow to, of the many that `make faults` tries

    def __init__(self, folder: Path, journal: bytes) -> None:
        self.folder, self.path = folder, folder / self.profile
        folder.mkdir()
        self.prepare(journal)
        self.before = names(folder)

    def prepare(self, journal: bytes) -> None:
        self.path.write_bytes(journal)

    def check(self) -> None:
        """What holds at any moment, however often it was killed."""
        if self.path.exists():
            rows_of(self.path)

    def check_done(self, done: Ended) -> None:
        """What holds when it has come to its end."""

    @property
    def made(self) -> list[str]:
        """Files in its folder that it has made, but for those that it is about."""
        known = {*self.before, self.profile, "page.html"}
        return [name for name in names(self.folder) if name not in known]


class Profiling(Task):
    arguments = ("profile", MODEL, *SIMULATED, *FEW, "--profile", "p.ampere")
    lasts_s = 1.0
    full = (0, 5000)

    def prepare(self, journal: bytes) -> None:
        """It begins with nothing."""

    def check_done(self, done: Ended) -> None:
        rows = rows_of(self.path)
        assert len(rows) >= 4 and all(row.failed is None for row in rows)


class Metering(Profiling):
    """With a worker process of its own."""

    share = 0.1
    lasts_s = 2.5
    arguments = ("profile", MODEL, *METERED, "--measurements", "4", "--profile", "p.ampere")


class Telling(Task):
    arguments = ("tell", "rows.jsonl", "--profile", "p.ampere")
    full = (0, 1, 237, 3000, 50_000)

    def prepare(self, journal: bytes) -> None:
        row = json.loads(journal.splitlines()[1])
        rows = [{**row, "energy_j_per_step": 1.0 + i / 1000} for i in range(100)]
        text = "".join(json.dumps(each) + "\n" for each in rows)
        (self.folder / "rows.jsonl").write_text(text)

    def check(self) -> None:
        if self.path.exists():
            told = [row.energy_j_per_step for row in rows_of(self.path)]
            assert len(told) == len(set(told))

    def check_done(self, done: Ended) -> None:
        told = {row.energy_j_per_step for row in rows_of(self.path)}
        assert told == {1.0 + i / 1000 for i in range(100)}


class Evaluating(Task):
    arguments = ("evaluate", MODEL, *SIMULATED, "--models", "2", "--profile", "p.ampere")
    full = (30_000,)


class Estimating(Task):
    arguments = ("estimate", MODEL, "--profile", "p.ampere")


class Reporting(Task):
    arguments = ("report", "p.ampere", "-o", "page.html")
    full = (0, 100_000)

    def check(self) -> None:
        super().check()
        page = self.folder / "page.html"
        if page.exists():  # whole, and out of the way of the next one
            assert page.read_text().rstrip().endswith("</html>")
            page.unlink()


class Pruning(Task):
    """So small a model has nothing to cut by what is known of it; what is written is the same."""

    arguments = (
        *("prune", MODEL, "--profile", "p.ampere", "--budget", "100%"),
        *("--confidence", "0.5", "-o", "small"),
    )
    full = (0, 2000, 5000)

    def check(self) -> None:
        super().check()
        small = self.folder / "small"
        if small.exists():  # whole, and out of the way of the next one
            from safetensors import safe_open

            with safe_open(small / "model.safetensors", "pt") as weights:
                assert list(weights.keys())
            compile((small / "model.py").read_text(), "model.py", "exec")
            assert json.loads((small / "widths.json").read_text())
            assert small.rename(self.folder.with_name(f"{self.folder.name}-{time.time_ns()}"))

    def check_done(self, done: Ended) -> None:
        assert not (self.folder / "small").exists()  # it was, and was looked at
