"""The battery of an iPhone or iPad, watched from outside with the user's own pymobiledevice3.

    pymobiledevice3 diagnostics battery single [--udid UDID]     the IOPMPowerSource of the phone
      {"AppleRawCurrentCapacity": 2045,                mAh left
       "InstantAmperage": 18446744073709551064,        mA; a discharge is negative, at times wrapped
       "Voltage": 3879, "AppleRawBatteryVoltage": 3879,  mV; the first may be 0
       "ExternalConnected": false, "AppleRawExternalConnected": false, "IsCharging": false, ...}

The phone updates these about every 20 s. A cable feeds it, so that it must be reached over Wi-Fi:
once, on the cable, pair it and switch `lockdown wifi-connections` on. macOS and iTunes then find it
by themselves; elsewhere pass `--mobdev2` through the setting `options`. pymobiledevice3 is under
the GPL: it is run as a command, never imported.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import AUTO, Resolution
from ampere.meters.discharge import Battery, DischargeMeter, PluggedIn
from ampere.meters.tool import ask_tool

COMMAND = "pymobiledevice3"
POWERED = ("ExternalConnected", "AppleRawExternalConnected", "IsCharging")
UNPLUG = (
    "unplug it, and reach it over Wi-Fi: once, on the cable, pair it and switch on "
    "`pymobiledevice3 lockdown wifi-connections`"
)


class IphoneMeter(DischargeMeter):
    """Joules that leave a phone's battery: all of it, display and radio included.

    Args:
        command: The pymobiledevice3 command; `python3 -m pymobiledevice3` is one, too.
        udid: Which phone; needed where there are several.
        options: Whatever else that command needs to reach it, such as `--mobdev2`.
        source: What is looked at: charge (of its gauge) or power (its current); auto decides.
        period_s: Seconds between looks.
        timeout_s: How long the command may take for one.
    """

    name: ClassVar[str] = "iphone"
    rung: ClassVar[int] = 120
    summary: ClassVar[str] = "the battery of an iPhone or iPad over Wi-Fi (unplugged)"
    addresses: ClassVar[tuple[str, ...]] = ("command", "udid", "options", "timeout_s")
    outside: ClassVar[bool] = True
    documented: ClassVar[Mapping[str, Resolution]] = {
        "charge": Resolution(energy_j=14.4, period_s=20.0),  # 1 mAh at 4 V
        "power": Resolution(period_s=20.0),
    }
    most_w: ClassVar[float] = 50.0

    def __init__(
        self,
        command: str = COMMAND,
        udid: str = "",
        options: str = "",
        source: str = AUTO,
        period_s: float = 10.0,
        timeout_s: float = 20.0,
    ) -> None:
        self._command = [
            *_split(command),
            *("diagnostics", "battery", "single"),
            *(("--udid", udid) if udid else ()),
            *_split(options),
        ]
        self._timeout_s = timeout_s
        super().__init__(source, period_s)

    def look(self) -> Mapping[str, Battery]:
        """What the phone's battery shows, if it is what feeds the phone."""
        shown = self._ask()
        states = [shown[key] for key in POWERED if shown.get(key) in (True, False)]
        if any(states):
            raise PluggedIn(f"the phone is plugged in or charging; {UNPLUG}")
        if not states:
            raise MeterError(
                "the phone does not say whether it is plugged in; choose another meter"
            )
        voltage_mv = _whole(shown, "Voltage") or _whole(shown, "AppleRawBatteryVoltage") or 0
        voltage_v = voltage_mv / 1e3 if 2500 <= voltage_mv <= 10_000 else None
        charge_mah = _whole(shown, "AppleRawCurrentCapacity") or 0
        current_ma = _signed(_whole(shown, "InstantAmperage"))
        power_w = None
        if voltage_v is not None and current_ma is not None:
            power_w = -current_ma / 1e3 * voltage_v  # what flows in is no discharge: not believed
        return {
            "of the phone": Battery(
                charge_c=3.6 * charge_mah if 0 < charge_mah < 30_000 else None,
                voltage_v=voltage_v,
                power_w=power_w,
            )
        }

    def _ask(self) -> dict[str, Any]:
        answer = ask_tool(self._command, self._timeout_s)
        try:
            shown = json.loads(answer.output)
        except (ValueError, RecursionError):
            shown = None
        if isinstance(shown, dict):
            return shown
        complaint = (answer.errors.strip() or answer.output.strip() or "nothing").splitlines()[-1]
        trouble = complaint.rpartition("ERROR")[2].strip()[:200]  # what comes before is the log's
        raise MeterFault(f"pymobiledevice3 reached no phone and said {trouble!r}; {UNPLUG}")


def _whole(shown: Mapping[str, Any], key: str) -> int | None:
    value = shown.get(key)
    return value if isinstance(value, int) else None


def _signed(value: int | None) -> int | None:
    """Milliamperes of a two's complement of 16, 32 or 64 bits that was read as unsigned."""
    for bits in (16, 32, 64):
        if value is not None and 2 ** (bits - 1) <= value < 2**bits:
            value -= 2**bits
    return value if value is not None and abs(value) < 20_000 else None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise MeterError(f"meter iphone: {text!r} is no command line ({error})") from None
