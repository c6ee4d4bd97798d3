"""The thread that samples for a meter, and whether it still can.

    due      │    │    │    │    │    │    │      every period
    taken    │    │     │   │              │      late ones are taken at once, missed ones are not
                               └─ starved ─┘      made up for

A thread may be late, since other threads of the process hold the interpreter, or come to its end. A
meter that asks for its `trouble` at each look never takes that for a sensor at rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ampere.errors import MeterError

GAP = 10  # periods without a sample that can be bridged
STARVED_S = 1.0  # for less, threads of fast sensors wait on any busy machine
NAME = "ampere sampler"  # of the thread
PAUSE = 0.1  # of a period at least from sample to sample, so that looks have their turn


class Sampler:
    """Takes a sample every so often until it is ended.

    Args:
        take: Takes one; whatever it raises is told by `trouble`, and sampling goes on.
        period_s: How often.
    """

    def __init__(self, take: Callable[[], None], period_s: float) -> None:
        self._take, self._period_s = take, period_s
        self._failed = ""  # how, since anybody asked
        self._took_s = time.perf_counter()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._thread.start()

    def trouble(self) -> str:
        """What spoilt the samples since the last question; nothing if nothing did.

        Raises:
            MeterError: If there will be no more samples.
        """
        if self._ended.is_set() or not self._thread.is_alive():
            raise MeterError("the thread that samples the meter has ended; open the meter again")
        failed, self._failed = self._failed, ""
        starved_s = time.perf_counter() - self._took_s
        if not failed and starved_s > max(GAP * self._period_s, STARVED_S):
            return (
                f"no sample was taken for {starved_s:.3g} s: this process keeps its thread from"
                " running; choose a meter that counts, or one outside"
            )
        return failed

    def end(self) -> None:
        """Take no more samples."""
        self._ended.set()

    def _run(self) -> None:
        due_s = time.perf_counter() + self._period_s
        while not self._ended.wait(min(due_s - time.perf_counter(), threading.TIMEOUT_MAX)):
            try:
                self._take()
            except Exception as error:  # a driver may fail in any way
                self._failed = f"a sample failed ({error!r:.200}); repair the meter's driver"
            self._took_s = time.perf_counter()
            due_s = max(due_s + self._period_s, self._took_s + PAUSE * self._period_s)
