"""zeus: counters that the package `zeus` reads, of AMD's GPUs, Apple's chips and Windows.

    zeus.device.get_gpus()   AMDGPUs: amdsmi, mJ of each GPU with its memory
    zeus.device.get_soc()    AppleSilicon: IOReport, mJ of CPU, GPU, DRAM and neural engine
    zeus.device.get_cpus()   EMICPUs: Windows' Energy Meter Interface, mJ of packages and DRAM;
                             in zeus's repository, in no release up to 0.16.0

zeus looks for whatever the machine has, so what comes back may be of another kind (NVIDIA's GPUs,
RAPL, a Jetson), for which ampere has meters of its own: only the kind above is taken. Apple's GPU
SRAM is left out, since nobody says whether it is inside the GPU's joules.
"""

from __future__ import annotations

import importlib
import sys
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Meter, Provenance, Reading, Resolution


class _ZeusMeter(Meter):
    """A counter of millijoules that zeus reads."""

    provenance: ClassVar[Provenance] = Provenance.COUNTER
    platform: ClassVar[str] = ""  # the only one that has it, as in sys.platform
    resolution = Resolution(energy_j=5e-3, period_s=0.1)  # whole mJ of each part; 0.1 s is careful

    @classmethod
    def obstacle(cls) -> str | None:
        """None if zeus can read the counter here."""
        if cls.platform not in ("", sys.platform):
            return f"only on {cls.platform}, this is {sys.platform}; choose another meter"
        try:
            cls().read()
        except MeterError as error:
            return str(error)
        return None

    def read(self) -> Reading:
        """Joules since an arbitrary start."""
        time_s = time.perf_counter()
        energy_mj = _ask(self.energy_mj, raising=MeterFault)
        return Reading(energy_mj / 1e3, time_s, self.provenance)

    @abstractmethod
    def energy_mj(self) -> float:
        """Millijoules so far; whatever zeus raises becomes a fault."""


class AmdMeter(_ZeusMeter):
    """Joules of one AMD GPU, or with `gpu=all` of every one that HIP sees."""

    name: ClassVar[str] = "amdsmi"
    summary: ClassVar[str] = "energy counters of AMD GPUs (amdsmi, through zeus)"
    accelerators: ClassVar[tuple[str, ...]] = ("cuda",)  # as PyTorch calls ROCm

    def __init__(self, gpu: float | str = 0) -> None:
        self._zeus = _find("get_gpus", "AMDGPUs", "an AMD GPU, ROCm 6.2 or later and its amdsmi")
        everyone = range(_ask(len, self._zeus))
        self._gpus = everyone if gpu == "all" else [index for index in everyone if index == gpu]
        if not self._gpus:
            raise MeterError(f"meter amdsmi: there is no gpu={gpu}; zeus sees {len(everyone)}")
        for index in self._gpus:
            if not _ask(self._zeus.supports_get_total_energy_consumption, index):
                raise MeterError(
                    f"GPU {index} has no energy counter that zeus trusts;"
                    " integrate its power: hwmon:chip=amdgpu,sensor=power1"
                )

    def energy_mj(self) -> float:
        """The sum of the GPUs' counters."""
        return float(sum(map(self._zeus.get_total_energy_consumption, self._gpus)))


class AppleMeter(_ZeusMeter):
    """Joules of the CPU, GPU, memory and neural engine of a Mac's chip."""

    name: ClassVar[str] = "apple"
    summary: ClassVar[str] = "energy counters of Apple silicon (IOReport, through zeus)"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu", "mps")
    platform: ClassVar[str] = "darwin"

    def __init__(self) -> None:
        self._zeus = _find("get_soc", "AppleSilicon", "Apple silicon and `pip install zeus[apple]`")
        now = _ask(self._zeus.get_total_energy_consumption)
        parts = ("cpu_total_mj", "gpu_mj", "dram_mj", "ane_mj")
        self._parts = [part for part in parts if getattr(now, part, None) is not None]
        if self._parts[:2] != ["cpu_total_mj", "gpu_mj"]:
            raise MeterError("zeus does not see the joules of both CPU and GPU; update it")

    def energy_mj(self) -> float:
        """The sum of the parts that the chip has."""
        now = self._zeus.get_total_energy_consumption()
        return float(sum(getattr(now, part) for part in self._parts))


class EmiMeter(_ZeusMeter):
    """Joules of all processor packages, and of their memory where it is metered."""

    name: ClassVar[str] = "emi"
    summary: ClassVar[str] = "energy counters of Intel processors (Windows EMI, through zeus)"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu",)
    platform: ClassVar[str] = "win32"

    def __init__(self) -> None:
        self._zeus = _find("get_cpus", "EMICPUs", "an Intel processor and a zeus after 0.16")
        packages = range(_ask(len, self._zeus))
        self._dram = [
            _ask(self._zeus.supports_get_dram_energy_consumption, index) for index in packages
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


def _find(function: str, kind: str, needs: str) -> Any:
    """What zeus finds on this machine, if it is of the kind that is meant."""
    try:
        zeus = importlib.import_module("zeus.device")
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] != "zeus":
            raise MeterError(f"zeus cannot be imported ({error}); repair it") from error
        raise MeterError("zeus is missing; run `pip install ampere-energy[zeus]`") from None
    except Exception as error:
        raise MeterError(f"zeus cannot be imported ({error!r}); repair it") from error
    if not hasattr(zeus, function):
        raise MeterError(f"this zeus has no {function}; run `pip install --upgrade zeus`")
    try:
        found = _ask(getattr(zeus, function))
    except MeterError as error:
        raise MeterError(f"{error} (it takes {needs})") from error
    if type(found).__name__ != kind:
        raise MeterError(f"zeus finds {type(found).__name__} here, not {kind}: use its own meter")
    return found


def _ask(
    question: Callable[..., Any], *arguments: Any, raising: type[MeterError] = MeterError
) -> Any:
    """Put a question to zeus, which may fail in any way, and in several lines."""
    try:
        return question(*arguments)
    except Exception as error:
        raise raising(f"zeus: {' '.join(str(error).split()) or repr(error)}") from error
