"""NVML: the energy counters of NVIDIA GPUs, read through nvidia-ml-py (`pynvml`).

    nvmlDeviceGetTotalEnergyConsumption   mJ since the driver was loaded: Volta and later
    nvmlDeviceGetPowerUsage               mW: older GPUs; integrated here, so a sensor's joules.
                                          From Ampere on, it is the mean of the last second

The counter moves every 20 to 100 ms, depending on the GPU. It holds the GPU and its memory, not
the processor. `gpu=1` is the GPU that CUDA calls 1, which need not be NVML's:

    CUDA_VISIBLE_DEVICES   hides and renumbers GPUs for CUDA, not for NVML: followed here
    CUDA_DEVICE_ORDER      CUDA counts the fastest GPU first unless this is PCI_BUS_ID, NVML always
                           along the bus: refused where the GPUs differ
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Meter, Provenance, Reading, Resolution
from ampere.meters.integration import PowerMeter

ENERGY_MJ = "nvmlDeviceGetTotalEnergyConsumption"
POWER_MW = "nvmlDeviceGetPowerUsage"
AMPERE = 7  # NVML_DEVICE_ARCH_AMPERE; an unknown architecture is a large number


class NvmlMeter(Meter):
    """Joules of one GPU, or with `gpu=all` of every one, whichever process spends them."""

    name: ClassVar[str] = "nvml"
    rung: ClassVar[int] = 20
    provenance: ClassVar[Provenance] = Provenance.COUNTER
    summary: ClassVar[str] = "energy counters of NVIDIA GPUs (NVML)"
    accelerators: ClassVar[tuple[str, ...]] = ("cuda",)
    resolution = Resolution(energy_j=1e-3, period_s=0.1)

    def __init__(self, gpu: float | str = 0, period_s: float = 0.1) -> None:
        self._nvml = _start()
        self._power: _Power | None = None
        self._open = True
        try:
            self._gpus = _find_gpus(self._nvml, gpu)
            if not self._counts():
                mean_s = 1.0 if self._newest() >= AMPERE else 0.0
                self._power = _Power(lambda: self._sum(POWER_MW) / 1e3, period_s, mean_s)
                self.provenance = self._power.provenance  # type: ignore[misc]  # no counter
                self.resolution = self._power.resolution
        except MeterError:
            self.close()
            raise

    @classmethod
    def obstacle(cls) -> str | None:
        """None if the first GPU tells its energy or its power."""
        try:
            cls().close()
        except MeterError as error:
            return str(error)
        return None

    def read(self) -> Reading:
        """Joules since an arbitrary start: from the counter, or integrated where there is none."""
        if self._power is not None:
            return self._power.read()
        time_s = time.perf_counter()
        return Reading(self._sum(ENERGY_MJ) / 1e3, time_s, self.provenance)

    def close(self) -> None:
        """End the thread that integrates, if there is one, and let go of NVML."""
        if self._power is not None:
            self._power.close()
        if self._open:
            self._open = False
            with suppress(MeterError):
                _ask(self._nvml, "nvmlShutdown")

    def _counts(self) -> bool:
        """Whether every GPU has a counter: joules of two provenances do not mix."""
        try:
            self._sum(ENERGY_MJ)
        except _NotSupported:
            self._sum(POWER_MW)
            return False
        return True

    def _newest(self) -> int:
        """The architecture of the newest GPU."""
        return int(max(_ask(self._nvml, "nvmlDeviceGetArchitecture", gpu) for gpu in self._gpus))

    def _sum(self, function: str) -> float:
        return float(sum(_ask(self._nvml, function, gpu) for gpu in self._gpus))


class _Power(PowerMeter):
    """Watts of GPUs that do not count their joules."""

    name: ClassVar[str] = "nvml"

    def __init__(self, read_w: Callable[[], float], period_s: float, mean_s: float) -> None:
        self._read_w = read_w
        super().__init__(period_s)
        self.resolution = Resolution(period_s=max(period_s, mean_s))

    def power_w(self) -> float:
        return self._read_w()


class _NotSupported(MeterError):
    """The GPU, or its driver, does not tell this."""


def _start() -> Any:
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise MeterError("nvidia-ml-py is missing; run `pip install nvidia-ml-py`") from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise MeterError(f"no NVIDIA driver answers ({error}); choose another meter") from None
    return nvml


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:
    """Call NVML; what may pass becomes a fault, the rest an error."""
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, AttributeError):
        raise _NotSupported(f"this GPU or driver has no {function}; choose another meter") from None
    except (nvml.NVMLError_Unknown, nvml.NVMLError_Timeout) as error:
        raise MeterFault(f"{function}: {error}") from None
    except nvml.NVMLError as error:
        raise MeterError(f"{function}: {error}; choose another meter") from None


def _find_gpus(nvml: Any, gpu: float | str) -> list[Any]:
    """Handles of the GPUs that are meant."""
    count = _ask(nvml, "nvmlDeviceGetCount")
    everyone = [_ask(nvml, "nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    if gpu == "all" and everyone:
        return everyone
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
    seen = [entry.strip() for entry in visible.split(",") if entry.strip()]
    if gpu not in range(len(seen)):
        raise MeterError(f"meter nvml: there is no gpu={gpu}; CUDA sees {len(seen)} of {count}")
    entry = seen[int(gpu)]
    if not (entry.isascii() and entry.isdigit()):
        return [_ask(nvml, "nvmlDeviceGetHandleByUUID", entry)]
    if int(entry) >= count:
        raise MeterError(f"CUDA_VISIBLE_DEVICES names GPU {entry} of {count}; correct it")
    models = {_ask(nvml, "nvmlDeviceGetName", handle) for handle in everyone}
    if len(models) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise MeterError(
            "the GPUs differ, so CUDA and NVML may count them in different orders;"
            " set CUDA_DEVICE_ORDER=PCI_BUS_ID, or take gpu=all"
        )
    return [everyone[int(entry)]]
