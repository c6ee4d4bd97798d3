"""A model of the energy of a process and all of its descendants, for machines without a counter.

    energy_j = idle_w × seconds + active_w × CPU-seconds of the process, its children, theirs ...

The same model as the meter `cpu`, whose powers it takes by default, for work that is not done in
one process: loaders of data, a script with its helpers.
"""

from __future__ import annotations

import os
import time
from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.base import Meter, Provenance, Reading, Resolution
from ampere.meters.drivers.cpu import CpuMeter
from ampere.meters.process_tree import ProcessTree, tells


class TreeMeter(Meter):
    """Modelled joules: `idle_w` all the time, and `active_w` more for each busy core of the tree.

    Args:
        pid: The process at the root; by default the one that opens the meter.
        idle_w: Watts that the machine takes all the time.
        active_w: Watts more for each core that the tree keeps busy.
    """

    name: ClassVar[str] = "tree"
    rung: ClassVar[int] = 135
    provenance: ClassVar[Provenance] = Provenance.MODELLED
    summary: ClassVar[str] = "model: as cpu, of a process and all of its descendants (Linux)"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu",)

    def __init__(self, pid: float = 0, idle_w: float = 2.7, active_w: float = 0.9) -> None:
        if not isinstance(pid, (int, float)) or pid != int(pid) or pid < 0:
            raise MeterError(f"meter tree: pid={pid} must be the number of a process")
        self._model = CpuMeter(idle_w, active_w)  # checks the powers
        self._start_s = time.perf_counter()
        self._tree = ProcessTree(int(pid) or None)
        self._before_s = self._tree.cpu_s()
        # What children used is told in ticks, once they are waited for.
        self.resolution = Resolution(energy_j=active_w / os.sysconf("SC_CLK_TCK"))

    @classmethod
    def obstacle(cls) -> str | None:
        """It needs Linux's list of processes."""
        if tells():
            return None
        return "there is no /proc here: use the meter cpu, which counts one process"

    def read(self) -> Reading:
        """Joules since the meter was opened."""
        time_s = time.perf_counter()
        spent_s = self._tree.cpu_s() - self._before_s
        energy_j = self._model.idle_w * (time_s - self._start_s) + self._model.active_w * spent_s
        return Reading(energy_j, time_s, self.provenance)
