"""JSON lines: the story of a run as it happens, which `ampere watch` and `ampere card` read."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import ClassVar

from ampere.gates.sinks.base import in_run
from ampere.gates.story import FILE, LONGEST_LINE, End, Event, Start, Status

# Without O_BINARY, Windows would write other ends of lines.
FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


class JsonLinesSink:
    """RUN/gate.jsonl, appended to: one line is one write, so that whoever reads sees whole ones."""

    name: ClassVar[str] = "json"

    def __init__(self, run: Path | None, file: str = "") -> None:
        self._path = Path(file) if file else in_run(run, FILE)
        self._descriptor = -1  # not open

    def start(self, start: Start) -> None:
        """Its first line, or that of a run that goes on."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, FLAGS, 0o666)
        self._drop_half_a_line()
        self._write(start)

    def status(self, status: Status) -> None:
        """A line."""
        self._write(status)

    def end(self, end: End) -> None:
        """The last line, and on the disk."""
        try:
            self._write(end)
            os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _write(self, event: Event) -> None:
        line = f"{json.dumps(event.to_json(), ensure_ascii=False, allow_nan=False)}\n".encode()
        if os.write(self._descriptor, line) < len(line):
            self._drop_half_a_line()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _drop_half_a_line(self) -> None:
        """What a crash or a full disk has cut off would make the next line unreadable."""
        size = os.fstat(self._descriptor).st_size
        begin = max(size - LONGEST_LINE, 0)
        os.lseek(self._descriptor, begin, os.SEEK_SET)  # writes go to the end
        tail = os.read(self._descriptor, size - begin)
        if tail and not tail.endswith(b"\n"):
            os.ftruncate(self._descriptor, begin + tail.rfind(b"\n") + 1)
