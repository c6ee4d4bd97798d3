"""hwmon: the power and energy sensors that Linux drivers publish.

    /sys/class/hwmon/hwmon3/          one chip; old drivers put its files into hwmon3/device/
      name                            power_meter, amdgpu, ina238, ...
      power1_input                    µW now
      power1_average                  µW over power1_average_interval ms: where there is no input
      energy1_input                   µJ since some start: a counter, taken as it is
      power1_label, energy1_label     what is measured, if the driver says so

Only `power_meter`, the one of ACPI, is known to hold the whole machine. Any other sensor shows a
part of it, and is only taken when named: `hwmon:chip=amdgpu,sensor=power1`. The number in `hwmon3`
may change from boot to boot; it tells chips of the same name apart. A counter that falls wrapped
or was reset, nobody knows where: such a reading is a fault.
"""

from __future__ import annotations

import math
import os
import re
import time
from pathlib import Path
from typing import ClassVar, NamedTuple

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Meter, Provenance, Reading, Resolution
from ampere.meters.integration import PowerMeter
from ampere.meters.sysfs import read_number, read_text

ROOT = "/sys/class/hwmon"
MACHINE = "power_meter"


class HwmonMeter(Meter):
    """Joules of the whole machine, or of the sensor that is named."""

    name: ClassVar[str] = "hwmon"
    rung: ClassVar[int] = 70
    provenance: ClassVar[Provenance] = Provenance.SENSOR
    addresses: ClassVar[tuple[str, ...]] = ("root",)
    summary: ClassVar[str] = "ACPI's power meter, or a sensor that is named (Linux hwmon)"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def __init__(
        self,
        root: str = ROOT,
        chip: str = "",
        sensor: str = "",
        period_s: float = 0.1,
        idle_w: float = 0.0,
    ) -> None:
        path = _choose(_find_sensors(Path(root)), root, str(chip), str(sensor))
        read_number(path)
        counts = path.name.startswith("energy")
        self._meter: Meter = _Counter(path, idle_w) if counts else _Power(path, period_s, idle_w)
        self.provenance = self._meter.provenance  # type: ignore[misc]  # a counter is better
        self.resolution = self._meter.resolution

    @classmethod
    def obstacle(cls, root: str = ROOT) -> str | None:
        """None if there is a sensor of the whole machine, and it can be read."""
        try:
            read_number(_choose(_find_sensors(Path(root)), root))
        except MeterError as error:
            return str(error)
        return None

    def read(self) -> Reading:
        """Joules since the meter was opened."""
        return self._meter.read()

    def close(self) -> None:
        """End the thread that integrates, if there is one."""
        self._meter.close()


class _Power(PowerMeter):
    """Microwatts, integrated."""

    name: ClassVar[str] = "hwmon"

    def __init__(self, path: Path, period_s: float, idle_w: float) -> None:
        self._path = path
        super().__init__(period_s, idle_w)
        self.resolution = Resolution(period_s=max(period_s, _interval_s(path)))

    def power_w(self) -> float:
        return read_number(self._path) / 1e6


class _Counter(Meter):
    """Microjoules that somebody else has integrated."""

    name: ClassVar[str] = "hwmon"
    provenance: ClassVar[Provenance] = Provenance.COUNTER
    resolution = Resolution(energy_j=1e-6, period_s=0.1)  # drivers do not say; 0.1 s is careful

    def __init__(self, path: Path, idle_w: float) -> None:
        if not 0 <= idle_w < math.inf:
            raise MeterError(f"meter hwmon: idle_w={idle_w} must be watts, 0 or more")
        self._path, self._idle_w = path, idle_w
        self._start_s = time.perf_counter()
        self._start_uj = self._last_uj = read_number(path)

    def read(self) -> Reading:
        time_s = time.perf_counter()
        last_uj, self._last_uj = self._last_uj, read_number(self._path)
        if self._last_uj < max(0, last_uj):
            raise MeterFault(
                f"{self._path} went from {last_uj} to {self._last_uj} µJ: it wrapped or was reset"
            )
        energy_j = (self._last_uj - self._start_uj) / 1e6
        idle_j = self._idle_w * (time_s - self._start_s)
        return Reading(energy_j - idle_j, time_s, self.provenance)


class _Sensor(NamedTuple):
    chip: str
    folder: str
    key: str
    label: str
    path: Path

    def __str__(self) -> str:
        return f"{self.chip}/{self.key} ({', '.join(filter(None, (self.folder, self.label)))})"


def _find_sensors(root: Path) -> list[_Sensor]:
    sensors = []
    for chip in sorted(root.glob("hwmon*")):
        folder = chip if os.path.exists(chip / "name") else chip / "device"
        files: dict[str, Path] = {}
        for path in sorted(folder.glob("*_*")):
            if re.fullmatch(r"power[0-9]+_(average|input)|energy[0-9]+_input", path.name):
                files[path.name.split("_")[0]] = path  # an input comes last, and is kept
        for key, path in files.items():
            name, label = _text(folder / "name"), _text(folder / f"{key}_label")
            sensors.append(_Sensor(name, chip.name, key, label, path))
    return sensors


def _choose(sensors: list[_Sensor], root: str, chip: str = "", sensor: str = "") -> Path:
    """The one sensor that is meant."""
    named = bool(chip or sensor)
    fits = [
        s
        for s in sensors
        if chip in ("", s.chip, s.folder) and sensor in ("", s.key, s.label)
        if named or s.chip == MACHINE
    ]
    if len(fits) == 1:
        return fits[0].path
    if not sensors:
        raise MeterError(f"no power or energy sensor under {root}; choose another meter")
    wanted = f"chip={chip},sensor={sensor}" if named else f"of the whole machine ({MACHINE})"
    raise MeterError(
        f"{len(fits) or 'no'} sensors {wanted} under {root}; name one by its chip and sensor, as"
        f" hwmon:chip=...,sensor=..., out of {', '.join(map(str, fits or sensors))}"
    )


def _interval_s(path: Path) -> float:
    """What an average is taken over; most drivers do not say."""
    try:
        return max(0, read_number(path.with_name(f"{path.name}_interval"))) / 1e3
    except MeterError:
        return 0.0


def _text(path: Path) -> str:
    """What a file says that not every chip has."""
    try:
        return read_text(path)
    except MeterError:
        return ""
