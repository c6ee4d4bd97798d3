"""Batteries in a temporary folder: a power_supply tree, and tools that reach a phone.

The tools are executables that answer as adb and pymobiledevice3 do. Their state is in files beside
them, so that a test can plug the phone in, or drain it, while a meter watches.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ampere.meters.base import Meter

M = TypeVar("M", bound=Meter)

ADB = r"""#!/bin/sh
here=${0%/*}
printf '%s\n' "$*" >>"$here/calls"
serial=
if [ "$1" = -s ]; then serial=$2; shift 2; fi
[ "$1" = shell ] || exit 1
if [ -e "$here/hang" ]; then exec sleep 30; fi
count=0
while read -r known state; do
  if [ -z "$serial" ] || [ "$serial" = "$known" ]; then count=$((count + 1)); found=$state; fi
done <"$here/devices"
fail() { printf '%s\n' "$@" >&2; exit 1; }
if [ $count = 0 ] && [ -n "$serial" ]; then fail "adb: device '$serial' not found"; fi
if [ $count = 0 ]; then fail "adb: no devices/emulators found"; fi
if [ $count -gt 1 ]; then fail "adb: more than one device/emulator"; fi
if [ "$found" = offline ]; then fail "adb: device offline"; fi
if [ "$found" = unauthorized ]; then
  fail "adb: device unauthorized." "This adb server's \$ADB_VENDOR_KEYS is not set" \
    "Otherwise check for a confirmation dialog on your device."
fi
PATH="$here/phone:$PATH"
exec sh -c "$(printf '%s' "$2" | sed "s|/sys/class/power_supply|$here/power_supply|")"
"""

DUMPSYS = r"""#!/bin/sh
here=${0%/*}
[ "$1" = battery ] || exit 1
if [ "$2" = get ]; then cat "$here/current"; else cat "$here/battery"; fi
"""

PYMOBILEDEVICE3 = r"""#!/bin/sh
here=${0%/*}
printf '%s\n' "$*" >>"$here/calls"
if [ -e "$here/hang" ]; then exec sleep 30; fi
log="2026-01-01 12:00:00 host pymobiledevice3.__main__[7] ERROR"
case "$*" in
  "diagnostics battery single"*) ;;
  *) echo "Error: No such command" >&2; exit 2;;
esac
if [ ! -e "$here/battery.json" ]; then echo "$log Device is not connected" >&2; exit 1; fi
case "$*" in
  *"--udid $(cat "$here/udid")"*) ;;
  *--udid*) echo "$log Device not found: it" >&2; exit 1;;
esac
cat "$here/battery.json"
"""


class PowerSupply:
    """The kernel's power_supply class; figures are millionths, as there."""

    def __init__(self, root: Path) -> None:
        self.path = root
        root.mkdir(parents=True)

    @property
    def root(self) -> str:
        return str(self.path)

    def add(self, name: str, **files: object) -> None:
        (self.path / name).mkdir()
        self.write(name, **files)

    def add_battery(self, name: str = "BAT0", status: str = "Discharging", **files: object) -> None:
        self.add(name, type="Battery", present=1, status=status, **files)

    def write(self, name: str, **files: object) -> None:
        for file, content in files.items():
            (self.path / name / file).write_text(f"{content}\n", encoding="utf-8")

    def remove(self, name: str, file: str) -> None:
        (self.path / name / file).unlink()

    def drain(self, name: str = "BAT0", file: str = "energy_now", by: int = 10_000) -> None:
        left = int((self.path / name / file).read_text())
        self.write(name, **{file: left - by})


class Phone:
    """An Android phone and the adb that reaches it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "phone").mkdir(parents=True)
        self.adb = _executable(folder / "adb", ADB)
        _executable(folder / "phone" / "dumpsys", DUMPSYS)
        self.supplies = PowerSupply(folder / "power_supply")
        self.devices("192.168.1.7:5555 device")
        self.answer_current("Unknown get option: current_now")
        self.state: dict[str, Any] = {
            "AC powered": "false",
            "USB powered": "false",
            "Wireless powered": "false",
            "Dock powered": "false",
            "Max charging current": 0,
            "Charge counter": 3_361_204,
            "status": 3,
            "health": 2,
            "present": "true",
            "level": 84,
            "scale": 100,
            "voltage": 4000,
            "temperature": 251,
            "technology": "Li-ion",
        }
        self.show()

    def show(self, head: str = "Current Battery Service state:", **changed: object) -> None:
        """What the battery service says; `_` stands for a blank in a name."""
        self.state.update({key.replace("_", " "): value for key, value in changed.items()})
        lines = [head, *(f"  {key}: {value}" for key, value in self.state.items())]
        (self.folder / "phone" / "battery").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def drain(self, by_uah: int) -> None:
        self.show(Charge_counter=self.state["Charge counter"] - by_uah)

    def devices(self, *lines: str) -> None:
        (self.folder / "devices").write_text("".join(f"{line}\n" for line in lines))

    def answer_current(self, text: str) -> None:
        """What `dumpsys battery get current_now` says."""
        (self.folder / "phone" / "current").write_text(f"{text}\n", encoding="utf-8")

    def hang(self) -> None:
        (self.folder / "hang").touch()

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


class Iphone:
    """An iPhone and the pymobiledevice3 that reaches it."""

    UDID = "00008101-000410EC3EF9001E"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.command = _executable(folder / "pymobiledevice3", PYMOBILEDEVICE3)
        (folder / "udid").write_text(self.UDID)
        self.state: dict[str, Any] = {
            "AppleRawBatteryVoltage": 3879,
            "AppleRawCurrentCapacity": 2045,
            "AppleRawExternalConnected": False,
            "AppleRawMaxCapacity": 3331,
            "CurrentCapacity": 61,
            "ExternalConnected": False,
            "InstantAmperage": 2**64 - 500,
            "IsCharging": False,
            "Serial": {"$hex": "a1b2"},
            "Temperature": 2809,
            "Voltage": 4000,
        }
        self.show()

    def show(self, **changed: object) -> None:
        self.state.update(changed)
        self.write(json.dumps(self.state, indent=4))

    def forget(self, *keys: str) -> None:
        for key in keys:
            del self.state[key]
        self.show()

    def write(self, text: str) -> None:
        (self.folder / "battery.json").write_text(text, encoding="utf-8")

    def lose(self) -> None:
        (self.folder / "battery.json").unlink()

    def hang(self) -> None:
        (self.folder / "hang").touch()

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


class Clock:
    """Stands in for the module `time`: seconds pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def perf_counter(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


def _executable(path: Path, script: str) -> str:
    """A script that can be run at once.

    Another process makes it: what is open for writing here, a thread that forks just then has open
    too, and the kernel refuses to run it ("Text file busy").
    """
    text = path.with_name(f"{path.name}.txt")
    text.write_text(script)
    text.chmod(0o755)
    subprocess.run(["cp", "-p", str(text), str(path)], check=True, timeout=60)
    return str(path)


@contextmanager
def opening(driver: Callable[..., M], settings: dict[str, Any]) -> Iterator[Callable[..., M]]:
    """Opens meters with these settings, and closes them all."""
    meters: list[M] = []

    def open_meter(**given: Any) -> M:
        meters.append(driver(**{**settings, **given}))
        return meters[-1]

    yield open_meter
    for meter in meters:
        meter.close()
