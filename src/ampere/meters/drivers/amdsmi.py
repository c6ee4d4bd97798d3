"""amdsmi: the energy counters of AMD's GPUs, mJ of each with its memory, read through zeus."""

from __future__ import annotations

from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.zeus import ZeusMeter, ask_zeus, find_device


class AmdMeter(ZeusMeter):
    """Joules of one AMD GPU, or with `gpu=all` of every one that HIP sees."""

    name: ClassVar[str] = "amdsmi"
    rung: ClassVar[int] = 40
    summary: ClassVar[str] = "energy counters of AMD GPUs (amdsmi, through zeus)"
    accelerators: ClassVar[tuple[str, ...]] = ("cuda",)  # as PyTorch calls ROCm

    def __init__(self, gpu: float | str = 0) -> None:
        self._zeus = find_device(
            "get_gpus", "AMDGPUs", "an AMD GPU, ROCm 6.2 or later and its amdsmi"
        )
        everyone = range(ask_zeus(len, self._zeus))
        self._gpus = everyone if gpu == "all" else [index for index in everyone if index == gpu]
        if not self._gpus:
            raise MeterError(f"meter amdsmi: there is no gpu={gpu}; zeus sees {len(everyone)}")
        for index in self._gpus:
            if not ask_zeus(self._zeus.supports_get_total_energy_consumption, index):
                raise MeterError(
                    f"GPU {index} has no energy counter that zeus trusts;"
                    " integrate its power: hwmon:chip=amdgpu,sensor=power1"
                )

    def energy_mj(self) -> float:
        """The sum of the GPUs' counters."""
        return float(sum(map(self._zeus.get_total_energy_consumption, self._gpus)))
