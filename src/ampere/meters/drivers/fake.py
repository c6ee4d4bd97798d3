"""A meter that is moved by hand, for tests and demonstrations."""

from __future__ import annotations

import math
from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.base import Meter, Provenance, Reading


class FakeMeter(Meter):
    """Simulated joules: it moves by `advance`, and by `step_j` and `step_s` after every reading.

    The steps let a fake that is opened by name, in another process, move on its own:
    `fake:step_j=0.5,step_s=0.1`.
    """

    name: ClassVar[str] = "fake"
    rung: ClassVar[int] = 150
    provenance: ClassVar[Provenance] = Provenance.SIMULATED
    summary: ClassVar[str] = "simulated joules, for tests and demonstrations"

    def __init__(self, step_j: float = 0.0, step_s: float = 0.0) -> None:
        _check(step_j, step_s)
        self._step_j, self._step_s = step_j, step_s
        self._energy_j = self._time_s = 0.0

    def advance(self, energy_j: float, time_s: float) -> None:
        """Spend joules over seconds."""
        _check(energy_j, time_s)
        self._energy_j += energy_j
        self._time_s += time_s

    def read(self) -> Reading:
        """The joules and seconds that it was moved by so far."""
        reading = Reading(self._energy_j, self._time_s, self.provenance)
        self.advance(self._step_j, self._step_s)
        return reading


def _check(energy_j: float, time_s: float) -> None:
    if not (0 <= energy_j < math.inf and 0 <= time_s < math.inf):
        raise MeterError(
            f"a meter cannot move by {energy_j} J and {time_s} s; use numbers of 0 or more"
        )
