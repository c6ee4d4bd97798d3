"""Jetson: the INA3221 power monitors on NVIDIA's modules, read through sysfs.

    /sys/bus/i2c/drivers/ina3221x/0-0041/iio:device1/     until JetPack 4; also iio_device/
      rail_name_0                         VDD_IN
      in_power0_input                     mW; where it is missing:
      in_voltage0_input, in_current0_input    mV and mA
    /sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3/     since JetPack 5
      in1_label                           VDD_IN
      in1_input, curr1_input              mV and mA
      in7_label                           sum of shunt voltages: no rail

A chip has three channels; those named `NC` are not connected. Rails are taken so that each joule
of the module counts once:

    VDD_IN, POM_5V_IN or 5V_IN             the whole module: Nano, TX1, TX2, Xavier NX, Orin NX
    GPU, CPU, SOC, CV, VDDRQ, SYS5V        AGX Xavier: side by side, each from the board's inputs
    VDD_GPU_SOC, VDD_CPU_CV, VIN_SYS_5V0   AGX Orin; VIN_SYS_5V0 feeds VDDQ_VDD2_1V8AO: inside it

The carrier board is not in them; on a TX2 it has rails of its own (VDD_MUX), and on a Thor a chip
that holds module and board: `hwmon:chip=ina238`. A rail that is switched off shows 0 W, or a
little less.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.integration import PowerMeter
from ampere.meters.sysfs import read_number, read_text

ROOT = "/sys"
MODULES = (
    ("VDD_IN",),
    ("POM_5V_IN",),
    ("5V_IN",),
    ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
    ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
)


class JetsonMeter(PowerMeter):
    """Joules of the module, or of the rails that are named: `jetson:rail=VDD_IN+VDD_MUX`."""

    name: ClassVar[str] = "jetson"
    rung: ClassVar[int] = 10
    summary: ClassVar[str] = "power rails of NVIDIA Jetson modules (INA3221)"
    addresses: ClassVar[tuple[str, ...]] = ("root",)
    accelerators: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def __init__(
        self, root: str = ROOT, rail: str = "", period_s: float = 0.1, idle_w: float = 0.0
    ) -> None:
        self._rails = _choose(_find_rails(Path(root)), str(rail))
        self.power_w()
        super().__init__(period_s, idle_w)

    @classmethod
    def obstacle(cls, root: str = ROOT) -> str | None:
        """None if the rails of the whole module can be read."""
        try:
            for files in _choose(_find_rails(Path(root)), ""):
                _power_w(files)
        except MeterError as error:
            return str(error)
        return None

    def power_w(self) -> float:
        """Watts of all chosen rails together."""
        return sum(_power_w(files) for files in self._rails)


def _power_w(files: tuple[Path, ...]) -> float:
    """Watts from a file of milliwatts, or from one of millivolts and one of milliamperes."""
    return math.prod(read_number(file) for file in files) / 1e3 ** len(files)


def _find_rails(root: Path) -> dict[str, tuple[Path, ...]]:
    """Every connected rail by name, and the files that show its power."""
    rails: dict[str, tuple[Path, ...]] = {}
    for label in _find_labels(root / "bus" / "i2c" / "drivers"):
        name = read_text(label)
        if name in ("", "NC"):
            continue
        if name in rails:
            raise MeterError(f"{label} names a second rail {name}; choose another meter")
        rails[name] = _find_inputs(label)
    if not rails:
        raise MeterError(
            f"no INA3221 power monitor under {root}: this is no Jetson, or one without"
            " (Nano 2GB); choose another meter"
        )
    return rails


def _find_labels(drivers: Path) -> Iterator[Path]:
    for chip in sorted(drivers.glob("ina3221*/*-*")):
        # iio_device is iio:device0 again
        folders = [f for p in ("iio:device*", "iio_device", "hwmon/hwmon*") for f in chip.glob(p)]
        for folder in folders[:1]:
            yield from sorted(folder.glob("rail_name_[0-2]"))
            yield from sorted(folder.glob("in[1-3]_label"))


def _find_inputs(label: Path) -> tuple[Path, ...]:
    if label.name.startswith("in"):
        channel = label.name[2]
        return label.with_name(f"in{channel}_input"), label.with_name(f"curr{channel}_input")
    channel = label.name[-1]
    power = label.with_name(f"in_power{channel}_input")
    if os.path.exists(power):
        return (power,)
    return (
        label.with_name(f"in_voltage{channel}_input"),
        label.with_name(f"in_current{channel}_input"),
    )


def _choose(rails: dict[str, tuple[Path, ...]], wanted: str) -> list[tuple[Path, ...]]:
    """The rails that are named, else those that hold the whole module."""
    there = ", ".join(rails)
    modules = [tuple(wanted.split("+"))] if wanted else MODULES
    for names in modules:
        if set(names) <= set(rails) and len(set(names)) == len(names):
            return [rails[name] for name in names]
    if wanted:
        raise MeterError(f"meter jetson: rail={wanted} is not among {there}, or it is named twice")
    raise MeterError(
        f"the rails {there} are of no module that ampere knows; name those that hold it, none of"
        " them inside another, as jetson:rail=A+B"
    )
