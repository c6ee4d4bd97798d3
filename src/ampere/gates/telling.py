"""Telling: a run's story goes to all of its sinks, and its notes to whoever watches.

A sink that fails is told once and left out from then on: no training ends because of a full disk.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from ampere.core.shown.letters import shortened
from ampere.gates.sinks.base import Sink
from ampere.gates.story import LONGEST_NOTE, End, Start, Status

MOST_NOTES = 100  # that wait for the next status


def say(text: str) -> None:
    """One line to standard error."""
    with contextlib.suppress(OSError, ValueError):  # closed, or a full disk: training goes on
        print(f"ampere: {text}", file=sys.stderr, flush=True)


class Teller:
    """Tells all sinks, and drops those that fail."""

    def __init__(self, sinks: Sequence[Sink], watch: Callable[[str], None] = say) -> None:
        self._sinks = list(sinks)
        self._watch = watch
        self._notes: list[str] = []
        self._said: set[str] = set()

    @property
    def waiting(self) -> bool:
        """Whether there is a note that no status has had yet."""
        return bool(self._notes)

    def note(self, text: str) -> None:
        """A line for people: said at once, and told with the next status; the same but once."""
        text = shortened(text, LONGEST_NOTE)  # what is longer makes a story that nobody can read
        if text in self._said:
            return
        self._said.add(text)
        if len(self._notes) < MOST_NOTES:
            self._notes.append(text)
        with contextlib.suppress(Exception):  # whatever a user's function does
            self._watch(text)

    def taken(self) -> tuple[str, ...]:
        """Notes since the last status."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def start(self, start: Start) -> None:
        """Tell the start."""
        self._each(lambda sink: sink.start(start))

    def status(self, status: Status) -> None:
        """Tell a status."""
        self._each(lambda sink: sink.status(status))

    def end(self, end: End) -> None:
        """Tell the end."""
        self._each(lambda sink: sink.end(end))

    def _each(self, tell: Callable[[Sink], None]) -> None:
        for sink in tuple(self._sinks):
            try:
                tell(sink)
            except Exception as error:
                self._sinks.remove(sink)
                name = getattr(sink, "name", type(sink).__name__)
                self.note(f"the sink {name} fails ({_why(error)}): it is told nothing any more")


def _why(error: Exception) -> str:
    """What went wrong; of a file or a folder, which one."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)
