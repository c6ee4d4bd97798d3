"""Codes: two states of ampere whose commands are compared, this one and the one before it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measured.processes import Ended, Look, run

ROOT = Path(__file__).resolve().parents[2]
# Started again where a process is wanted: for programs beside a measurement, to meter members.
SCRIPT = ROOT / "benchmarks" / "measuring.py"
BEFORE = "40a52b2"
GIT_S, MEASURE_S = 60.0, 120.0  # when each is given up


@dataclass(frozen=True)
class Code:
    """One state of ampere, whose commands run with caches of their own."""

    name: str
    root: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which this code is found before any other."""
        paths = (self.root / "src", self.root / "paper" / "src")
        own = {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "XDG_CACHE_HOME": str(self.home / f"cache_{self.name}"),
        }
        # An installed package has its bytecode, too: that is what is timed.
        kept = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, **own}

    def python(self, *arguments: str, timeout_s: float, look: Look | None = None) -> Ended:
        """Run python with this code."""
        command = [sys.executable, *arguments]
        return run(command, self.environment, self.home, timeout_s, look)

    def ampere(self, *arguments: str, timeout_s: float, look: Look | None = None) -> Ended:
        """Run a command of this code."""
        return self.python("-m", "ampere", *arguments, timeout_s=timeout_s, look=look)

    def verify(self) -> None:
        """Make sure that it is this code that runs, and compile it."""
        found = self.python("-c", "import ampere; print(ampere.__file__)", timeout_s=60.0)
        if not found.output.startswith(str(self.root)):
            raise SystemExit(f"{self.name}: {found.output or found.complaint}, not {self.root}")
        warm = ("measure", "zoo:lenet5", "--threads", "1", "--quick", "--json")
        self.ampere(*warm, timeout_s=MEASURE_S)


def git(*arguments: str) -> str:
    ended = run(["git", *arguments], os.environ, ROOT, GIT_S)
    if ended.code != 0:
        raise SystemExit(f"git {' '.join(arguments)}: {ended.complaint or ended.code}")
    return ended.output


@contextlib.contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """The code of another day, for as long as it is needed."""
    folder = ROOT / "build" / "before"
    git("check-ignore", "--quiet", "build/before")
    if folder.exists():
        git("-C", str(folder), "checkout", "--quiet", "--detach", revision)
    else:
        git("worktree", "add", "--quiet", "--force", "--detach", str(folder), revision)
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))
        with contextlib.suppress(OSError):  # something else is kept there
            folder.parent.rmdir()
