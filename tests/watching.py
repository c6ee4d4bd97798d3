"""`ampere watch` in a process of its own, on loopback, for as long as a block takes."""

from __future__ import annotations

import contextlib
import functools
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Watching:
    """A server that runs, and where."""

    process: subprocess.Popen[str]
    url: str

    def interrupt(self) -> int:
        """Ctrl-C; what it ends with."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(10)


@contextlib.contextmanager
def watching(*arguments: object) -> Iterator[Watching]:
    """Serve until the block ends."""
    line = [sys.executable, "-m", "ampere", "watch", *map(str, arguments), "--port", "0"]
    # Whoever runs the tests in the background of a shell ignores Ctrl-C, and so would its children.
    heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, preexec_fn=heeds) as process:
        assert process.stderr is not None
        try:
            said = next((text for text in process.stderr if text.startswith("open ")), "")
            assert said, "it ended before it listened"
            yield Watching(process, said.split()[1])
        finally:
            process.kill()
