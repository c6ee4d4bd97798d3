from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .phones import Clock
from .powercap import Powercap


@pytest.fixture
def powercap(tmp_path: Path) -> Powercap:
    return Powercap(tmp_path / "powercap")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock for batteries, that a test moves on."""
    clock = Clock()
    monkeypatch.setattr("ampere.meters.discharge.time", clock)
    return clock


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str], str]:
    """Writes a log for the replay meter and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "log.csv"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
