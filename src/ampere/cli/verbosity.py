"""Verbosity: how much a command tells besides its answer, as the user wished.

    --quiet     errors and warnings only
    usual       progress in short, and hints
    --verbose   every step of progress, in full

The answer itself is the same with each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum


class Verbosity(Enum):
    """How much is told."""

    QUIET = "quiet"
    USUAL = "usual"
    VERBOSE = "verbose"


# Not a context variable: what runs in threads of a command speaks as the command does.
_present = Verbosity.USUAL


def verbosity() -> Verbosity:
    """What holds at present."""
    return _present


@contextmanager
def speaking(wished: Verbosity) -> Iterator[None]:
    """Tell so much for a while."""
    global _present
    before, _present = _present, wished
    try:
        yield
    finally:
        _present = before
