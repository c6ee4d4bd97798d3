"""Places: where runs are, under what a user named.

runs/a                 a run's folder: runs/a/gate.jsonl
runs/a/gate.jsonl      its file, or any other file
runs                   a folder of runs, at most three levels deep
runs/tomorrow          not there yet: waited for
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ampere.gates.story import FILE, story_path

DEPTH = 3
MOST_RUNS = 100
MOST_FOLDERS = 5000  # looked into for runs


@dataclass(frozen=True)
class Place:
    """The file of one run, and what it is called on pages and in addresses."""

    path: Path
    label: str

    @property
    def key(self) -> str:
        """A word for addresses: the same as long as the file has its name."""
        name = os.fsencode(os.path.abspath(self.path))
        return hashlib.sha256(name).hexdigest()[:12]


def find_runs(named: Iterable[Path]) -> tuple[list[Place], bool]:
    """The runs under these names, each once, and whether there are more than are shown."""
    found: dict[str, Place] = {}
    for path in named:
        for place in _under(path):
            if len(found) == MOST_RUNS and place.key not in found:
                return list(found.values()), True
            found.setdefault(place.key, place)
    return list(found.values()), False


def _under(path: Path) -> Iterator[Place]:
    if os.path.isfile(path):
        yield Place(path, _label(path, path))
        return
    files = list(_files(path)) if os.path.isdir(path) else []
    for file in files or [story_path(path)]:
        yield Place(file, _label(path, file))


def _files(home: Path) -> Iterator[Path]:
    for folder, inner, files in islice(os.walk(home), MOST_FOLDERS):
        if FILE in files:
            yield Path(folder, FILE)
        deep = len(Path(folder).relative_to(home).parts) >= DEPTH
        inner[:] = [] if deep else sorted(each for each in inner if not each.startswith("."))


def _label(named: Path, file: Path) -> str:
    """As short as it can be: the run's folder, below what was named."""
    home = file.parent if file.name == FILE else file
    try:
        below = home.relative_to(named)
    except ValueError:  # the file itself was named
        below = Path()
    label = str(below) if below.parts else home.name or str(home.absolute().name)
    return label.encode(errors="replace").decode()  # a name of any bytes
