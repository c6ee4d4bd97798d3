"""Streams: standard output is for the answer alone, whoever else writes to it.

    0  standard input     one that is closed cannot be read, and says so
    1  standard error     what a model's code, a C library or a child process takes for output
    n  standard output    `sys.stdout`: the answer, and nothing else
    2  standard error     one that is closed swallows what it is told

Without the first three being open, the next file to be opened would get their number, and what
somebody prints would end up in it.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

# Opened the wrong way round: whoever reads or writes is told that it cannot be done.
_answer = 1
_CLOSED = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}


def set_apart() -> None:
    """Give the answer a way of its own out of this process, for as long as it runs."""
    for number, way in _CLOSED.items():
        _open_if_closed(number, way)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    encoding = sys.stdout.encoding if sys.stdout else "utf-8"
    global _answer
    _answer = os.dup(1)
    sys.stdout = os.fdopen(_answer, "w", encoding=encoding, errors="replace", closefd=False)
    os.dup2(2, 1)


def answer_number() -> int:
    """The number of the file that standard output is: for a program whose output is the answer."""
    return _answer


def silence(stream: TextIO) -> None:
    """Let what a stream still holds vanish: Python would complain once more at its end."""
    with suppress(OSError, ValueError):  # one without a file, in a test
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _open_if_closed(number: int, way: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, way)  # the lowest that is free: this very one
        os.set_inheritable(opened, True)
