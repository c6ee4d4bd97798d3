"""Purse: who says what the steps of a station took, on the device that it stands for."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Protocol

from ampere.core.fingerprint import Fingerprint
from ampere.core.workloads import Settings, Workload
from ampere.devices.simulated import SimulatedDevice
from ampere.errors import DeviceError, MeterFault
from ampere.fleet.runs.orders import Routine
from ampere.meters.base import Meter, Provenance


class Purse(Protocol):
    """Who says what steps took."""

    @property
    def fingerprint(self) -> Fingerprint:
        """Whose joules these are."""
        ...

    @property
    def provenance(self) -> Provenance:
        """Where they come from."""
        ...

    def begin(self, workload: Workload, routine: Routine) -> float:
        """Get ready for steps of this network; returns joules until now, which are no step's."""
        ...

    def take(self, steps: int, validated: int) -> float:
        """Joules of the steps and validated batches since the last look."""
        ...


class SimulatedPurse:
    """Joules that a simulated device says steps cost, while they are trained on this machine."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self._handles: dict[str, int] = {}  # of stages
        self._batches = 1

    @property
    def fingerprint(self) -> Fingerprint:
        """The simulated device's."""
        return self._device.fingerprint

    @property
    def provenance(self) -> Provenance:
        """Simulated, whatever is really trained."""
        return self._device.provenance

    def begin(self, workload: Workload, routine: Routine) -> float:
        """Work out what a step takes there, and what a batch does without an update.

        Between chunks its clock stands still, and nothing is spent.
        """
        for handle in self._handles.values():
            self._device.unload(handle)
        self._batches = routine.batches
        stages = ["step"]
        stages += ["forward"] if routine.batches > 1 or routine.validations else []
        stages += ["backward"] if routine.batches > 1 else []
        self._handles = {
            stage: self._device.load(replace(workload, stage=stage)).handle for stage in stages
        }
        return 0.0

    def take(self, steps: int, validated: int) -> float:
        """What it truly spends: its sensor shows that late, and its battery loses it at once."""
        before_j = self._device.spent_j
        more = steps * (self._batches - 1)  # batches without an update
        for stage, count in (("step", steps), ("forward", more + validated), ("backward", more)):
            if count:
                with contextlib.suppress(MeterFault):  # too few steps for its sensor
                    self._device.burst(self._handles[stage], count)
        return self._device.spent_j - before_j


class MeteredPurse:
    """Joules of this machine, by one of its meters."""

    def __init__(self, meter: Meter, fingerprint: Fingerprint) -> None:
        self._meter = meter
        self.fingerprint = fingerprint
        self._last_j = meter.read().energy_j

    @property
    def provenance(self) -> Provenance:
        """The meter's."""
        return self._meter.provenance

    def begin(self, workload: Workload, routine: Routine) -> float:
        """What idling, building and saving have taken."""
        return self._since()

    def take(self, steps: int, validated: int) -> float:
        """What the meter has counted since the last look."""
        return self._since()

    def _since(self) -> float:
        now_j = self._meter.read().energy_j
        taken_j, self._last_j = max(0.0, now_j - self._last_j), now_j
        return taken_j


def open_purse(device: str, meter: str = "auto", settings: Settings = Settings(threads=1)) -> Purse:
    """Who counts the joules of a device as it is written on the command line.

    The settings are of this machine; a simulated device has its own.

    Raises:
        AmpereError: There is no such device or meter, or it is not at this machine.
    """
    from ampere.devices.local import LocalDevice
    from ampere.devices.registry import open_device
    from ampere.meters.registry import open_meter, parse_meter

    kind = device.strip().partition(":")[0]
    if kind == "simulated":
        opened = open_device(device)
        assert isinstance(opened, SimulatedDevice)
        return SimulatedPurse(opened)
    if device.strip() != "local":
        raise DeviceError(f"{device}: a worker runs on its own device: use local or simulated:NAME")
    name, meter_settings = parse_meter(meter)
    with LocalDevice(settings, name, meter_settings) as here:
        fingerprint, chosen = here.fingerprint, str(here.meter["name"])
    return MeteredPurse(open_meter(chosen, **meter_settings), fingerprint)
