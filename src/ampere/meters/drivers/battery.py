"""The battery of a Linux laptop, tablet or board, as the kernel's power_supply class shows it.

    /sys/class/power_supply/
      AC/    type Mains    online 0 or 1: while anything is online, the battery tells nothing
      BAT0/  type Battery  status Discharging; present 0 or 1; scope System, or no such file
               energy_now              µWh   often in steps of 10 mWh
               charge_now              µAh   often in steps of 1 mAh, instead of energy_now
               voltage_now             µV
               power_now, current_now  µW, µA; drivers differ in the sign of a discharge
      hidpp_battery_0/     type Battery, but scope Device: that of a mouse, left out

Of two batteries (many a ThinkPad has them) one is drained at a time while the other one, not
`Charging`, says `Not charging`, `Unknown` or `Full`: what leaves both is counted. ACPI answers from
a cache for a second; behind it, firmware updates its figures every 1 to 30 s or more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ampere.errors import MeterError
from ampere.meters.base import AUTO, Resolution
from ampere.meters.discharge import Battery, DischargeMeter, PluggedIn

ROOT = "/sys/class/power_supply"
UNPLUG = "a battery only tells of the whole device while it discharges: unplug the charger"


class BatteryMeter(DischargeMeter):
    """Joules that leave the machine's own batteries: all of it, display and radio included.

    Args:
        root: Where the power supplies are.
        name: One battery, such as BAT0, where not all are meant.
        source: What is looked at: energy, charge or power; auto takes the first that is there.
        period_s: Seconds between looks.
    """

    name: ClassVar[str] = "battery"
    rung: ClassVar[int] = 100
    addresses: ClassVar[tuple[str, ...]] = ("root",)
    summary: ClassVar[str] = "the battery of a Linux laptop or board (unplugged)"
    documented: ClassVar[Mapping[str, Resolution]] = {
        "energy": Resolution(energy_j=36.0, period_s=30.0),  # 10 mWh
        "charge": Resolution(energy_j=43.2, period_s=30.0),  # 1 mAh at 12 V
        "power": Resolution(period_s=30.0),
    }
    most_w: ClassVar[float] = 500.0

    def __init__(
        self, root: str = ROOT, name: str = "", source: str = AUTO, period_s: float = 1.0
    ) -> None:
        self._root = Path(root)
        self._paths = _find_batteries(self._root, name)
        super().__init__(source, period_s)

    def look(self) -> Mapping[str, Battery]:
        """What each battery shows, if they are what feeds the machine."""
        for path in _supplies(self._root):
            feeds = _text(path / "type") not in ("Battery", "UPS")
            if feeds and _text(path / "online") in ("1", "2"):
                raise PluggedIn(f"{path.name} is online; {UNPLUG}")
        states = {path: _text(path / "status") for path in self._paths}
        for path, state in states.items():
            if not state:
                raise MeterError(f"{path / 'status'} cannot be read: the battery is gone")
        if "Charging" in states.values() or "Discharging" not in states.values():
            shown = ", ".join(f"{path.name} says {state[:40]!r}" for path, state in states.items())
            raise PluggedIn(f"{shown}; {UNPLUG}")
        return {path.name: _battery(path, state) for path, state in states.items()}


def _battery(path: Path, state: str) -> Battery:
    energy_wh = _number(path / "energy_now")
    charge_ah = _number(path / "charge_now")
    voltage_v = _number(path / "voltage_now")
    power_w = _number(path / "power_now")
    current_a = _number(path / "current_now")
    if state != "Discharging":  # it may be empty, and show what it gave before
        least, power_w = 0.0, 0.0
    else:
        least = 1e-6
        if power_w is None and current_a is not None and voltage_v is not None:
            power_w = current_a * voltage_v
    return Battery(
        energy_j=None if energy_wh is None or energy_wh < least else 3600 * energy_wh,
        charge_c=None if charge_ah is None or charge_ah < least else 3600 * charge_ah,
        voltage_v=None if voltage_v is None or voltage_v < least else voltage_v,
        power_w=None if power_w is None else abs(power_w),
    )


def capacity_j(root: str = ROOT) -> float | None:
    """What this machine's batteries hold when they are full; None if it has none that tells."""
    total_j = 0.0
    for path in _supplies(Path(root)):
        if _text(path / "type") != "Battery" or _text(path / "present") == "0":
            continue
        energy_wh = _number(path / "energy_full")
        charge_ah = _number(path / "charge_full")
        voltage_v = _number(path / "voltage_min_design") or _number(path / "voltage_now")
        if energy_wh is None and charge_ah is not None and voltage_v is not None:
            energy_wh = charge_ah * voltage_v
        total_j += 3600 * (energy_wh or 0.0)
    return total_j or None


def _find_batteries(root: Path, name: str) -> list[Path]:
    batteries = {
        path.name: path
        for path in _supplies(root)
        if _text(path / "type") == "Battery" and _text(path / "present") != "0"
    }
    if not batteries:
        raise MeterError(f"no battery under {root}; choose another meter")
    if name and name not in batteries:
        raise MeterError(f"no battery {name} under {root}; there is {', '.join(batteries)}")
    return [batteries[name]] if name else list(batteries.values())


def _supplies(root: Path) -> list[Path]:
    """What can feed the machine; the batteries of a mouse or a headset cannot."""
    try:
        paths = sorted(root.iterdir())
    except (OSError, ValueError):
        return []
    return [path for path in paths if _text(path / "scope") != "Device"]


def _number(path: Path) -> float | None:
    """A figure in whole units instead of millionths; None if there is none."""
    text = _text(path)
    return int(text) / 1e6 if re.fullmatch(r"-?[0-9]{1,15}", text) else None


def _text(path: Path) -> str:
    """The content of a file; nothing where the kernel has nothing to say, or no such file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return ""
