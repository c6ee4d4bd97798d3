"""Counters that the package `zeus` reads, of AMD's GPUs, Apple's chips and Windows.

    zeus.device.get_gpus()   AMDGPUs: drivers/amdsmi.py
    zeus.device.get_soc()    AppleSilicon: drivers/apple.py
    zeus.device.get_cpus()   EMICPUs: drivers/emi.py

zeus looks for whatever the machine has, so what comes back may be of another kind (NVIDIA's GPUs,
RAPL, a Jetson), for which ampere has meters of its own: only the kind above is taken.
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


class ZeusMeter(Meter):
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
        energy_mj = ask_zeus(self.energy_mj, raising=MeterFault)
        return Reading(energy_mj / 1e3, time_s, self.provenance)

    @abstractmethod
    def energy_mj(self) -> float:
        """Millijoules so far; whatever zeus raises becomes a fault."""


def find_device(function: str, kind: str, needs: str) -> Any:
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
        device = ask_zeus(getattr(zeus, function))
    except MeterError as error:
        raise MeterError(f"{error} (it takes {needs})") from error
    if type(device).__name__ != kind:
        raise MeterError(f"zeus finds {type(device).__name__} here, not {kind}: use its own meter")
    return device


def ask_zeus(
    question: Callable[..., Any], *arguments: Any, raising: type[MeterError] = MeterError
) -> Any:
    """Put a question to zeus, which may fail in any way, and in several lines."""
    try:
        return question(*arguments)
    except Exception as error:
        raise raising(f"zeus: {' '.join(str(error).split()) or repr(error)}") from error
