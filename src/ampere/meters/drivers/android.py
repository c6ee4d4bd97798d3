"""The battery of an Android phone, watched from outside over adb.

    adb shell dumpsys battery                    Android's battery service
      AC powered: false                            also USB, Wireless, Dock
      Charge counter: 3361204                      µAh left; mAh on some, 0 where there is none
      status: 3                                    2 charging, 3 discharging, 4 not charging, 5 full
      level: 84, scale: 100                        a line each
      voltage: 3912                                mV; µV on some
      current now: 441                             mA, on Samsung's phones only
    adb shell dumpsys battery get -f current_now   µA on new Androids; makes it look afresh
    /sys/class/power_supply/{battery,bms,*fg*}/    for shells that may read it, which is rare today
      current_now, voltage_now, charge_counter     µA, µV, µAh by the kernel's rule

A cable feeds the phone, so adb must come over Wi-Fi. The service looks at its battery when the
kernel reports a change, else every 1 to 10 minutes. Vendors differ in units, which are told apart
by what a phone can have: a cell or two in series, 0.8 to 30 Ah, 5 mA to 5 A, of either sign. Some
work the counter out from whole percents; where the current is known, that is taken instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import AUTO, Resolution
from ampere.meters.discharge import Battery, DischargeMeter, PluggedIn
from ampere.meters.tool import ask_tool

SCRIPT = (
    "{ cd /sys/class/power_supply && for supply in battery bms *fg*; do"
    " grep -Hs . $supply/current_now $supply/voltage_now $supply/charge_counter; done; }"
    ' 2>/dev/null; echo "current_now: $(dumpsys battery get -f current_now)"; dumpsys battery'
)
STATES = {"1": "unknown", "2": "charging", "4": "not charging", "5": "full"}
TROUBLES = {  # what adb says, and what it means
    "unauthorized": "the phone does not trust this computer; unlock it and allow debugging",
    "offline": "adb says that the phone is offline; wake it up, or run `adb reconnect`",
    "more than one": "adb sees several phones; choose one of `adb devices` by the setting serial",
    "no devices": "adb sees no phone; run `adb connect ADDRESS:5555`, after `adb tcpip 5555`",
    "device not found": "adb sees no phone; run `adb connect ADDRESS:5555`, after `adb tcpip 5555`",
    "' not found": "adb sees no phone of that serial; choose one of `adb devices`",
}
UNPLUG = "unplug it, and reach it over Wi-Fi: `adb tcpip 5555`, `adb connect ADDRESS:5555`"
UNITS_A = {"uA": 1e-6, "mA": 1e-3}


class AndroidMeter(DischargeMeter):
    """Joules that leave a phone's battery: all of it, display and radio included.

    Args:
        adb: The adb command.
        serial: Which phone, as `adb devices` names it; needed where there are several.
        source: What is looked at: charge (the counter) or power (the current); auto decides.
        current_unit: In what the phone shows its current: uA, mA, or auto to tell by its size.
        period_s: Seconds between looks.
        timeout_s: How long adb may take for one.
    """

    name: ClassVar[str] = "android"
    rung: ClassVar[int] = 110
    summary: ClassVar[str] = "the battery of an Android phone over adb and Wi-Fi (unplugged)"
    addresses: ClassVar[tuple[str, ...]] = ("adb", "serial", "timeout_s")
    outside: ClassVar[bool] = True
    documented: ClassVar[Mapping[str, Resolution]] = {
        "charge": Resolution(energy_j=14.4, period_s=60.0),  # 1 mAh at 4 V
        "power": Resolution(period_s=60.0),
    }
    most_w: ClassVar[float] = 50.0

    def __init__(
        self,
        adb: str = "adb",
        serial: str = "",
        source: str = AUTO,
        current_unit: str = AUTO,
        period_s: float = 5.0,
        timeout_s: float = 10.0,
    ) -> None:
        if current_unit not in (AUTO, *UNITS_A):
            raise MeterError(f"meter android: current_unit={current_unit} must be auto, uA or mA")
        self._command = [adb, *(["-s", serial] if serial else []), "shell", SCRIPT]
        self._timeout_s = timeout_s
        self._current_unit = current_unit
        self._wanted = source
        self._keys: tuple[str, str, str, float] | None = None
        super().__init__(source, period_s)

    def look(self) -> Mapping[str, Battery]:
        """What the phone's battery shows, if it is what feeds the phone."""
        shown = self._ask()
        _check_unplugged(shown)
        if self._keys is None:
            self._keys = self._find(shown)
        voltage, counter, current, unit_a = self._keys
        voltage_v, current_a = _volts(shown.get(voltage, "")), _number(shown.get(current, ""))
        power_w = None
        if voltage_v is not None and current_a is not None:
            power_w = abs(current_a) * unit_a * voltage_v
        return {
            "of the phone": Battery(
                charge_c=_coulombs(shown.get(counter, ""), shown),
                voltage_v=voltage_v,
                power_w=power_w,
            )
        }

    def _ask(self) -> dict[str, str]:
        """All that the phone says of its battery, by name; what comes first counts."""
        answer = ask_tool(self._command, self._timeout_s)
        shown: dict[str, str] = {}
        for line in answer.output.splitlines():
            key, _, value = line.partition(":")
            shown.setdefault(key.strip(), value.strip())
        if "status" in shown:
            if "UPDATES STOPPED" in answer.output:
                raise MeterError(
                    "the phone's battery service is frozen; run `adb shell dumpsys battery reset`"
                )
            return shown
        words = answer.errors.strip() or answer.output.strip() or "nothing"
        for sign, meaning in TROUBLES.items():
            if sign in words:
                raise MeterError(meaning)
        raise MeterFault(f"adb said {words.splitlines()[0][:100]!r} instead of a battery's state")

    def _find(self, shown: Mapping[str, str]) -> tuple[str, str, str, float]:
        """Where this phone shows voltage, charge and current; from then on only there."""
        voltages = [k for k in shown if k.endswith("/voltage_now") or k == "voltage"]
        voltage = next((k for k in voltages if _volts(shown[k]) is not None), "")
        counters = [k for k in shown if k.endswith("/charge_counter") or k == "Charge counter"]
        counter = next((k for k in counters if _coulombs(shown[k], shown) is not None), "")
        currents = [k for k in shown if k.endswith("current_now") or k == "current now"]
        current = next((k for k in currents if _number(shown[k])), "")
        unit_a = UNITS_A.get(self._current_unit) or _unit_a(_number(shown.get(current, "")))
        if not voltage:
            raise MeterError("the phone shows no voltage that can be true; choose another meter")
        if current and unit_a is None and (not counter or self._wanted == "power"):
            raise MeterError(
                f"the phone's current of {shown[current]} may be mA or µA; set current_unit"
            )
        if counter and _by_percent(shown[counter], shown):
            self.preferred = ("power", "charge")
        return voltage, counter, current if unit_a else "", unit_a or 0.0


def _check_unplugged(shown: Mapping[str, str]) -> None:
    for key, value in shown.items():
        if key.endswith(" powered") and value == "true":
            raise PluggedIn(f"{key.split()[0]} feeds the phone; {UNPLUG}")
    if shown["status"] != "3":
        state = STATES.get(shown["status"], shown["status"][:40])
        raise PluggedIn(f"the phone's battery is {state!r}, not discharging; {UNPLUG}")


def _volts(text: str) -> float | None:
    """Volts of a cell or two in series, shown in mV or µV (in V, if to the millivolt)."""
    value = _number(text)
    for scale in (1e-6, 1e-3, 1.0):
        if value is not None and 2.5 <= value * scale <= 10:
            return value * scale if scale < 1 or re.search(r"\.\d{3}", text) else None
    return None


def _coulombs(text: str, shown: Mapping[str, str]) -> float | None:
    """Charge that a phone can hold at this level, shown in µAh or mAh."""
    value, full = _number(text), _full(shown)
    for scale in (1e-6, 1e-3):
        if value is not None and full and 0.8 <= value * scale / full <= 30:
            return 3600 * value * scale
    return None


def _by_percent(text: str, shown: Mapping[str, str]) -> bool:
    """Whether the counter is the level in percents of a capacity that is a round number."""
    full_mah = (_coulombs(text, shown) or 0.0) / 3.6 / (_full(shown) or 1.0)
    return abs(full_mah - 10 * round(full_mah / 10)) < 1e-6 * full_mah


def _full(shown: Mapping[str, str]) -> float | None:
    """How full the battery is, above 0 and up to 1."""
    level, scale = _number(shown.get("level", "")), _number(shown.get("scale", "100"))
    return level / scale if level and scale and 0 < level <= scale else None


def _unit_a(current: float | None) -> float | None:
    """Amperes in the unit of a phone's current: 5 mA to 5 A, or 20 mA to 5 A in µA."""
    size = abs(current or 0.0)
    return UNITS_A["mA"] if 5 <= size < 5e3 else UNITS_A["uA"] if 2e4 <= size < 5e6 else None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,9})?", text) else None
