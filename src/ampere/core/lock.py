"""Lock: keeps other processes off a file, and dies with its process.

It is the operating system's lock on the file itself: on a journal, so that nothing lies beside it,
or on a worker's own file. Nothing is left over when a process is killed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import TypeVar

H = TypeVar("H", bound="Holder")

# Windows has neither, and no links that a stranger could make.
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

if sys.platform == "win32":
    import msvcrt

    def lock_file(file: FileIO) -> None:
        """Lock an open file until it is closed; `BlockingIOError` if another process has it."""
        # Windows locks keep readers out of the locked bytes, so lock one that no journal reaches.
        file.seek(2**31 - 2)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            raise BlockingIOError from None
else:
    import fcntl

    def lock_file(file: FileIO) -> None:
        """Lock an open file until it is closed; `BlockingIOError` if another process has it."""
        # Not lockf: that lock is lost as soon as this process closes another handle of the file.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_holder(file: FileIO) -> int | None:
    """The process that has locked this file, as far as Linux tells."""
    if sys.platform != "linux":
        return None
    status = os.fstat(file.fileno())
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            parts = line.split()  # 1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF
            if parts[1:2] == ["FLOCK"] and device in parts:
                pid = int(parts[4])
                return pid if pid > 0 else None  # of another container
    return None


def is_open_in(file: FileIO, pid: int) -> bool:
    """Whether a process of this user has this file open, as far as Linux tells."""
    ours = os.fstat(file.fileno())
    with contextlib.suppress(OSError):
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            return False
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it has just closed it
                if os.path.samestat(handle.stat(), ours):
                    return True
    return False


def _is_ours(status: os.stat_result) -> bool:
    return sys.platform == "win32" or status.st_uid == os.getuid()


def open_own(path: Path) -> FileIO:
    """Open a file of this user's alone to read and write, or make it.

    Raises:
        OSError: It cannot be opened, or is a link, or somebody else's.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o600)
    status = os.fstat(handle)
    if not _is_ours(status) or status.st_nlink != 1 or not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise PermissionError(errno.EPERM, "it is no file of this user's alone", str(path))
    return FileIO(handle, "r+")


class Holder:
    """Whoever holds a file, until it is closed or a `with` block ends."""

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        raise NotImplementedError

    def __enter__(self: H) -> H:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
