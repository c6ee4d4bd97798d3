"""Windows of meters that are sampled by a thread, on a machine that may be too busy to run it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ampere.errors import MeterFault
from ampere.meters.base import Meter, Window, energy_between

TRIES = 20


def window_of(meter: Meter, work: Callable[[], None] | float) -> Window:
    """What it shows of some work, or of so many seconds at rest.

    A window whose samples are too few is a fault that another look may mend (`check_samples`), so
    whoever measures looks again. So does a test.
    """
    for _ in range(TRIES):
        before = meter.read()
        if callable(work):
            work()
        else:
            time.sleep(work)
        try:
            return energy_between(before, meter.read())
        except MeterFault as fault:
            if "are too few" not in str(fault):
                raise
    pytest.fail(f"the meter's thread was not run in {TRIES} windows")
