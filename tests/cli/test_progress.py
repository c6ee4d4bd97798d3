"""Progress: lines, or a bar on a terminal."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator

import pytest

from ampere.acquisition.progress import Event
from ampere.cli import progress
from ampere.cli.verbosity import Verbosity, speaking, verbosity


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def events(total: int) -> Iterator[Event]:
    for done in range(total):
        yield Event(f"last [red]linear(in={done})", done, total, 100.0 - done)
    yield Event("done", total, total, 0.0)


def test_progress_is_plain_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PAUSE_S", 0.0)
    with progress.progress() as watch:
        for event in events(2):
            watch(event)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "0/2 last [red]linear(in=0) (1 min 40 s left)",
        "1/2 last [red]linear(in=1) (1 min 39 s left)",
        "2/2 done",
    ]


def test_progress_is_a_bar_on_a_terminal_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PAUSE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    threads = threading.active_count()
    with progress.progress() as watch:
        for event in events(3):
            watch(event)
            assert threading.active_count() == threads
    text = terminal.getvalue()
    assert "2/3" in text
    assert "1 min 38 s left" in text
    assert "[red]linear(in=2)" in text


def test_progress_is_drawn_at_most_four_times_a_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.progress() as watch:
        for event in events(1000):
            watch(event)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) < 10
    assert lines[-1] == "1000/1000 done"


def test_quiet_shows_nothing_and_verbose_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = Event(f"networks {'x' * 300}", 0, 2, 0.0)
    for wished, lines in ((Verbosity.QUIET, 0), (Verbosity.USUAL, 1), (Verbosity.VERBOSE, 2)):
        with speaking(wished), progress.progress() as watch:
            watch(long)
            watch(long)
        told = capsys.readouterr().err.splitlines()
        assert len(told) == lines
        assert all(("x" * 300 in line) == (wished is Verbosity.VERBOSE) for line in told)
        assert all(len(line) <= 110 for line in told) or wished is Verbosity.VERBOSE
    assert verbosity() is Verbosity.USUAL
