"""Freed memory: kept for the next step, or given back to the system and faulted in again.

glibc gives large blocks back to the kernel and faults them in again, or not, depending on what else
lies in the heap: the same network then takes up to a third more in one process than in another, for
as long as the process lives. Devices are measured with memory kept; a training that keeps its own
takes what was estimated, and less than it would.
"""

from __future__ import annotations

import ctypes
import os

KEPT, GIVEN_BACK = "kept", "as the system does"
# What glibc reads as a program starts: for those that this one starts.
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_MMAP_MAX_": "0"}
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD, M_MMAP_MAX of malloc.h


def keep_memory() -> str:
    """Keep what is freed for the next step, here and in programs that are started from here.

    Call it before the first step of a training on a processor: it then takes what a profile says.
    Memory that was used once is not given back while the process lives.

    Returns:
        `kept`, or `as the system does` where the C library is not glibc.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        kept = libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1) and libc.mallopt(_MMAP_MAX, 0)
    except (OSError, AttributeError):
        return GIVEN_BACK
    if kept:
        os.environ.update(KEEPING)
    return KEPT if kept else GIVEN_BACK


def keeps_memory() -> bool:
    """Whether this process was told to keep what is freed."""
    return all(os.environ.get(name) == value for name, value in KEEPING.items())
