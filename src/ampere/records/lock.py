"""Lock: keeps other processes from appending to a file, and dies with its process.

It is the operating system's lock on the journal itself, so nothing lies beside the journal and
nothing is left over when a process is killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from io import FileIO
from pathlib import Path

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
                return int(parts[4])
    return None
