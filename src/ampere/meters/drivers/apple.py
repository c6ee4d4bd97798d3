"""apple: the energy counters of Apple silicon, IOReport's mJ of its parts, read through zeus.

CPU, GPU, DRAM and neural engine are counted. The GPU's SRAM is left out, since nobody says whether
it is inside the GPU's joules.
"""

from __future__ import annotations

from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.zeus import ZeusMeter, ask_zeus, find_device


class AppleMeter(ZeusMeter):
    """Joules of the CPU, GPU, memory and neural engine of a Mac's chip."""

    name: ClassVar[str] = "apple"
    rung: ClassVar[int] = 50
    summary: ClassVar[str] = "energy counters of Apple silicon (IOReport, through zeus)"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu", "mps")
    platform: ClassVar[str] = "darwin"

    def __init__(self) -> None:
        self._zeus = find_device(
            "get_soc", "AppleSilicon", "Apple silicon and `pip install zeus[apple]`"
        )
        now = ask_zeus(self._zeus.get_total_energy_consumption)
        parts = ("cpu_total_mj", "gpu_mj", "dram_mj", "ane_mj")
        self._parts = [part for part in parts if getattr(now, part, None) is not None]
        if self._parts[:2] != ["cpu_total_mj", "gpu_mj"]:
            raise MeterError("zeus does not see the joules of both CPU and GPU; update it")

    def energy_mj(self) -> float:
        """The sum of the parts that the chip has."""
        now = self._zeus.get_total_energy_consumption()
        return float(sum(getattr(now, part) for part in self._parts))
