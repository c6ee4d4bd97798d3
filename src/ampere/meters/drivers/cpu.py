"""A model of the processor's energy, for machines without a counter.

    energy_j = idle_w × seconds + active_w × CPU-seconds of this process

The joules are modelled, not measured. The CPU-seconds are those of all threads of the process that
calls `read`, so the meter must be opened where the work is done; child processes are not included.

The default powers are assumptions, good for comparing networks and not for absolute joules. They
stand for a small board, the Raspberry Pi 4B: published readings of its supply are about 2.7 W idle
and 6.4 W with four busy cores, hence (6.4 − 2.7) / 4 ≈ 0.9 W a core. A core of a laptop or server
takes several times as much: read a plug meter once idle and once busy, and set both powers.
"""

from __future__ import annotations

import math
import time
from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.base import Meter, Provenance, Reading


class CpuMeter(Meter):
    """Modelled joules: `idle_w` all the time, and `active_w` more for each busy core."""

    name: ClassVar[str] = "cpu"
    rung: ClassVar[int] = 130
    provenance: ClassVar[Provenance] = Provenance.MODELLED
    summary: ClassVar[str] = "model: idle power × time + active power × CPU time of the process"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu",)

    def __init__(self, idle_w: float = 2.7, active_w: float = 0.9) -> None:
        for setting, power_w in {"idle_w": idle_w, "active_w": active_w}.items():
            if not isinstance(power_w, (int, float)) or not 0 <= power_w < math.inf:
                raise MeterError(f"meter cpu: {setting}={power_w} must be watts, 0 or more")
        if idle_w == active_w == 0:
            raise MeterError("meter cpu: idle_w and active_w are both 0; set at least one")
        self.idle_w = idle_w
        self.active_w = active_w
        self._start_s = time.perf_counter()
        self._start_cpu_s = time.process_time()

    def read(self) -> Reading:
        """Joules since the meter was opened."""
        time_s = time.perf_counter()
        cpu_s = time.process_time() - self._start_cpu_s
        energy_j = self.idle_w * (time_s - self._start_s) + self.active_w * cpu_s
        return Reading(energy_j, time_s, self.provenance)
