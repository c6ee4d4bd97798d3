"""Devices by name, as they are written on the command line."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from ampere.core.program.structure import TORCH
from ampere.core.workloads import Settings
from ampere.devices.adb import AdbDevice
from ampere.devices.base import Device
from ampere.devices.local import LocalDevice
from ampere.devices.recorded import RecordedDevice
from ampere.devices.simulated import SimulatedDevice
from ampere.devices.ssh import SshDevice
from ampere.errors import AmpereError, DeviceError
from ampere.meters.base import AUTO

AnyDevice: TypeAlias = LocalDevice | SshDevice | AdbDevice | SimulatedDevice | RecordedDevice
FORMS = "local, ssh:user@host, adb:serial, simulated:xavier or recorded:file.ampere"
OPTIONS: dict[str, tuple[str, ...]] = {
    "local": (),
    "ssh": ("python", "config"),
    "adb": ("python", "worker", "adb"),
    "simulated": ("seed",),
    "recorded": (),
}


def open_device(
    text: str = "local",
    settings: Settings | None = None,
    meter: str = AUTO,
    meter_settings: Mapping[str, float | str] | None = None,
) -> AnyDevice:
    """A device as it is written on the command line; whoever opens it closes it.

    `local`, `ssh:pi@raspberrypi,python=/usr/bin/python3`, `adb:SERIAL`, `simulated:xavier,seed=3`
    and `recorded:old.ampere`; the last two bring their own joules.
    """
    kind, _, rest = text.strip().partition(":")
    target, *parts = (part.strip() for part in rest.split(","))
    needs_target = kind in ("ssh", "simulated", "recorded")
    if kind not in OPTIONS or (needs_target and not target) or (kind == "local" and rest):
        raise DeviceError(f"unknown device {text!r}: use {FORMS}")
    if kind in ("simulated", "recorded") and (meter != AUTO or settings not in (None, Settings())):
        raise DeviceError(f"a {kind} device has a meter and settings of its own: leave yours out")
    options = _options(text, parts, OPTIONS[kind])
    ways: dict[str, Callable[[], AnyDevice]] = {
        "local": lambda: LocalDevice(settings, meter, meter_settings),
        "ssh": lambda: SshDevice(target, settings, meter, meter_settings, **options),
        "adb": lambda: AdbDevice(target, settings, meter, meter_settings, **options),
        "simulated": lambda: SimulatedDevice(target, seed=_whole(text, options.get("seed", "0"))),
        "recorded": lambda: RecordedDevice(target),
    }
    return ways[kind]()


@contextmanager
def device_or_local(device: Device | None, runtime: str = TORCH) -> Iterator[Device]:
    """The given device, which stays open, or this machine, which is closed afterwards."""
    if device is not None:
        yield device
        return
    with LocalDevice(Settings(runtime=runtime)) as local:
        yield local


@contextmanager
def opening(device: Device) -> Iterator[None]:
    """Let a device start while something else is done.

    What keeps it from starting is told again by its next use.
    """

    def start() -> None:
        with contextlib.suppress(AmpereError):
            device.provenance  # noqa: B018  asking anything of it starts it

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()  # or what it starts would outlive a device that is closed meanwhile


def _options(text: str, parts: list[str], allowed: tuple[str, ...]) -> dict[str, Any]:
    """What stands behind the device: `name=value`, each name allowed, and there once."""
    options: dict[str, Any] = {}
    for part in parts:
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in allowed:
            listed = f"its options are: {', '.join(allowed)}" if allowed else "it has no options"
            raise DeviceError(f"device {text!r} does not take {name!r}; {listed}")
        if not value or name in options:
            raise DeviceError(f"device {text!r}: give {name}=value, once")
        options[name] = value
    return options


def _whole(text: str, number: str) -> int:
    try:
        return int(number)
    except ValueError:
        raise DeviceError(f"device {text!r}: {number!r} is not a whole number") from None
