"""Follower: a file that somebody else appends to, read line by line, whatever becomes of it.

is not there yet       waited for
grows                  its new lines are told; a line without its end waits for it
is cut, or replaced    told anew from its beginning
has an endless line    that line is told as lost
is a pipe, a folder    refused: a pipe would be waited for
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ampere.gates.story import LONGEST_LINE

AT_ONCE = 2**20  # bytes of a look
HEAD = 512  # bytes by which a file is known again that was written anew in its place


@dataclass(frozen=True)
class Line:
    """A line and its number; no text if it was longer than anybody needs."""

    number: int
    text: bytes | None


@dataclass(frozen=True)
class Look:
    """What is new in a file since the last look."""

    lines: tuple[Line, ...] = ()
    anew: bool = False  # it is another file than before: forget what it said
    behind: bool = False  # there is more to read right now
    obstacle: str = ""  # why it cannot be read
    changed_at: float | None = None  # when it was written last, by its disk's clock


@dataclass
class _Bookmark:
    """How far a file was read, and how it is known again."""

    stamp: tuple[int, ...] | None = None
    head: bytes = b""
    offset: int = 0
    number: int = 0  # of lines
    rest: bytes = b""  # of a line that has no end yet
    lost: bool = False  # in the midst of a line that is too long


class Follower:
    """Follows one file by its name.

    Args:
        path: Where it is, or will be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = _Bookmark()

    def look(self) -> Look:
        """Read what is new, at most `AT_ONCE` bytes of it."""
        try:
            found = self.path.stat()
            if not stat.S_ISREG(found.st_mode):
                return Look(obstacle="it is no file")
            if self._at.stamp == _stamp(found) and self._at.offset == found.st_size:
                return Look(changed_at=found.st_mtime)
            return self._read()
        except (FileNotFoundError, NotADirectoryError):
            # What comes next is another file, though it may get the same number.
            self._at.stamp = None
            return Look(obstacle="its file is gone" if self._at.offset else "it is not there yet")
        except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
            return Look(obstacle=getattr(error, "strerror", None) or str(error))

    def _read(self) -> Look:
        with open(self.path, "rb", buffering=0, opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            head = file.read(HEAD)
            anew = self._at.offset > 0 and not self._is_same(found, head)
            if anew:
                self._at = _Bookmark()
            file.seek(self._at.offset)
            data = file.read(AT_ONCE)
        self._at.offset += len(data)
        self._at.head = head[: self._at.offset]
        self._at.stamp = _stamp(found)
        return Look(
            lines=tuple(self._split(data)),
            anew=anew,
            behind=self._at.offset < found.st_size and bool(data),
            changed_at=found.st_mtime,
        )

    def _is_same(self, found: os.stat_result, head: bytes) -> bool:
        return (
            self._at.stamp is not None
            and self._at.stamp[:2] == _stamp(found)[:2]
            and found.st_size >= self._at.offset
            and head.startswith(self._at.head)
        )

    def _split(self, data: bytes) -> Iterator[Line]:
        *whole, rest = (self._at.rest + data).split(b"\n")
        for text in whole:
            self._at.number += 1
            if text.strip() or self._at.lost:
                fits = not self._at.lost and len(text) <= LONGEST_LINE
                yield Line(self._at.number, text if fits else None)
            self._at.lost = False
        self._at.lost = self._at.lost or len(rest) > LONGEST_LINE
        self._at.rest = b"" if self._at.lost else rest


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _open_at_once(path: str, flags: int) -> int:
    """Open a file that may have become a pipe meanwhile, without waiting for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
