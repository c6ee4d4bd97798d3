"""emi: Windows' Energy Meter Interface, mJ of Intel's packages and DRAM, read through zeus.

It is in zeus's repository, in no release up to 0.16.
"""

from __future__ import annotations

from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.zeus import ZeusMeter, ask_zeus, find_device


class EmiMeter(ZeusMeter):
    """Joules of all processor packages, and of their memory where it is metered."""

    name: ClassVar[str] = "emi"
    rung: ClassVar[int] = 60
    summary: ClassVar[str] = "energy counters of Intel processors (Windows EMI, through zeus)"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu",)
    platform: ClassVar[str] = "win32"

    def __init__(self) -> None:
        self._zeus = find_device("get_cpus", "EMICPUs", "an Intel processor and a zeus after 0.16")
        packages = range(ask_zeus(len, self._zeus))
        self._dram = [
            ask_zeus(self._zeus.supports_get_dram_energy_consumption, index) for index in packages
        ]
        if not self._dram:
            raise MeterError("zeus sees no processor; choose another meter")

    def energy_mj(self) -> float:
        """The sum of the packages' counters."""
        energy_mj = 0.0
        for index, dram in enumerate(self._dram):
            now = self._zeus.get_total_energy_consumption(index)
            energy_mj += now.cpu_mj + (now.dram_mj if dram else 0.0)
        return energy_mj
