"""RAPL: the energy counters of Intel and AMD processors, read through Linux powercap.

    /sys/class/powercap/
      intel-rapl:0       package-0   counted
      intel-rapl:0:0     core        inside package-0
      intel-rapl:0:1     dram        counted: outside package-0
      intel-rapl:1       psys        the whole platform: only counted where no package is
      intel-rapl-mmio:0  package-0   the counter of intel-rapl:0 again

AMD processors appear under the same names. A counter wraps around after `max_energy_range_uj`,
which takes minutes to hours. One that runs backwards is taken to have wrapped once, so the meter
must be read more often than that; a reset (a suspended machine) cannot be told from a wrap.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.base import Meter, Provenance, Reading, Resolution
from ampere.meters.sysfs import read_number, read_text

ROOT = "/sys/class/powercap"


class RaplMeter(Meter):
    """Joules of all processor packages and their memory, whichever process spends them."""

    name: ClassVar[str] = "rapl"
    rung: ClassVar[int] = 30
    provenance: ClassVar[Provenance] = Provenance.COUNTER
    summary: ClassVar[str] = "energy counters of Intel and AMD processors (Linux powercap)"
    accelerators: ClassVar[tuple[str, ...]] = ("cpu",)
    addresses: ClassVar[tuple[str, ...]] = ("root",)
    resolution = Resolution(energy_j=1e-4, period_s=1e-3)  # counts of 15 or 61 µJ, every ms

    def __init__(self, root: str = ROOT) -> None:
        self._zones = [_Zone(path) for path in _find_zones(Path(root))]

    @classmethod
    def obstacle(cls, root: str = ROOT) -> str | None:
        """None if the counters can be read and have counted something."""
        try:
            meter = cls(root)
        except MeterError as error:
            return str(error)
        if not any(zone.last_uj for zone in meter._zones):
            return f"every counter under {root} is 0, as in virtual machines; choose another meter"
        return None

    def read(self) -> Reading:
        """Joules since the meter was opened."""
        time_s = time.perf_counter()
        total_uj = sum(zone.read() for zone in self._zones)
        return Reading(total_uj / 1e6, time_s, self.provenance)


class _Zone:
    """One counter; whole microjoules, so that long runs add up without rounding."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._range_uj = _read_number(path / "max_energy_range_uj")
        self._total_uj = 0
        self.last_uj = _read_number(path / "energy_uj")

    def read(self) -> int:
        """Microjoules since the zone was opened."""
        now_uj = _read_number(self._path / "energy_uj")
        passed_uj = now_uj - self.last_uj
        if passed_uj < 0:
            passed_uj += self._range_uj
        if passed_uj < 0:
            raise MeterError(
                f"{self._path} fell from {self.last_uj} to {now_uj} µJ, more than its range of "
                f"{self._range_uj} µJ; choose another meter"
            )
        self._total_uj += passed_uj
        self.last_uj = now_uj
        return self._total_uj


def _find_zones(root: Path) -> list[Path]:
    """The zones that together count every joule once."""
    names = {
        path: read_text(path / "name")
        for path in sorted(root.glob("intel-rapl:*"))
        if re.fullmatch(r"intel-rapl:\d+(:\d+)?", path.name)
    }
    top = {path: name for path, name in names.items() if path.name.count(":") == 1}
    packages = [path for path, name in top.items() if name.startswith("package")]
    memories = [
        path
        for path, name in names.items()
        if name == "dram" and path.with_name(path.name.rpartition(":")[0]) in packages
    ]
    platform = [path for path, name in top.items() if name == "psys"]
    zones = packages + memories or platform
    if not zones:
        raise MeterError(f"no RAPL counter under {root}; choose another meter, such as cpu")
    return zones


def _read_number(path: Path) -> int:
    number = read_number(path, path.parent.parent / "intel-rapl:*" / "energy_uj")
    if number < 0:
        raise MeterError(f"{path} holds '{number}', not a number; choose another meter")
    return number
