"""Which hardware in which settings: measurements of different fingerprints never mix silently."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ampere.core.boundary.fields import Fields
from ampere.core.program.structure import TORCH
from ampere.core.types import Json
from ampere.errors import FingerprintError

UNKNOWN = "unknown"
APART = (
    "profile each device into a file of its own; --any-device (in Python any_device=True) mixes"
    " them all the same"
)
RUNTIME = "runtime"  # the key of who trains; torch is not named, as when there was nobody else


@dataclass(frozen=True)
class Fingerprint:
    """`identity` must be the same for measurements to mix; `conditions` should be."""

    identity: Mapping[str, str]
    conditions: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def id(self) -> str:
        """Eight hex digits that differ where identities differ."""
        text = json.dumps(dict(self.identity), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def to_json(self) -> dict[str, Json]:
        """Plain data; `from_json` reads it back."""
        return {"identity": dict(self.identity), "conditions": dict(self.conditions)}

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Fingerprint:
        """Read back what `to_json` wrote."""
        fields = Fields(row, where)
        return cls(fields.texts("identity"), fields.texts("conditions", {}))


def refuse_to_mix(ours: Fingerprint, theirs: Fingerprint) -> None:
    """Raise unless both identities are the same; the error names every key that differs.

    Of different runtimes only what both say of themselves is compared: options of one are none of
    the other's.
    """
    keys = {*ours.identity, *theirs.identity}
    differences, remedy = [], APART
    if (mine := runtime_of(ours)) != (other := runtime_of(theirs)):
        differences = [f"runtime is {mine} here, {other} there"]
        remedy = f"say --runtime {other} (in Python runtime={other!r}), or take another file"
        keys = {*ours.identity} & {*theirs.identity} - {RUNTIME}
    differences += [
        f"{key} is {here} here, {there} there"
        for key in sorted(keys)
        if (here := ours.identity.get(key, "not set"))
        != (there := theirs.identity.get(key, "not set"))
    ]
    if differences:
        told = sorted(differences, key=lambda each: "not set" in each)  # what both know comes first
        raise FingerprintError(
            f"measurements of different devices do not mix: {'; '.join(told)}: {remedy}"
        )


def runtime_of(fingerprint: Fingerprint) -> str:
    """Who trains on a device; torch unless it says so."""
    return fingerprint.identity.get(RUNTIME, TORCH)


def changed_conditions(before: Fingerprint, now: Fingerprint) -> list[str]:
    """What about the conditions changed enough to shift joules or seconds, a line each."""
    texts = []
    clocks = _both(before, now, "clock_mhz")
    # A governor moves idle clocks about all the time; throttling and power caps go further.
    if clocks and max(clocks) > 1.2 * min(clocks):
        texts.append(f"the clock was {clocks[0]:.0f} MHz, now it is {clocks[1]:.0f} MHz")
    temperatures = _both(before, now, "temperature_c")
    if temperatures and abs(temperatures[0] - temperatures[1]) >= 10.0:
        was, is_now = temperatures
        texts.append(f"the device was at {was:.0f} °C, now it is at {is_now:.0f} °C")
    sources = [moment.conditions.get("power_source", UNKNOWN) for moment in (before, now)]
    if UNKNOWN not in sources and sources[0] != sources[1]:
        texts.append(f"the device ran on {sources[0]}, now it runs on {sources[1]}")
    return texts


def local_fingerprint(
    settings: Mapping[str, str],
    proc: Path = Path("/proc"),
    sysfs: Path = Path("/sys"),
    var: Path = Path("/var"),
) -> Fingerprint:
    """Describe this machine; `settings` (threads, framework, ...) are part of its identity."""
    identity = {
        "machine": platform.machine() or UNKNOWN,
        "processor": _processor(proc) or platform.processor() or UNKNOWN,
        "cores": str(len(usable_cores())),
        "memory": _memory(proc),
        "system": platform.system() or UNKNOWN,
        "power_mode": _power_mode(sysfs, var) or UNKNOWN,
        **{key: str(value) for key, value in settings.items()},
    }
    conditions = {
        "clock_mhz": _rounded(clock_mhz(proc, sysfs)),
        "temperature_c": _rounded(temperature_c(sysfs)),
        "power_source": power_source(sysfs),
        "physical_cores": _physical_cores(sysfs),
        "host": platform.node() or UNKNOWN,
    }
    return Fingerprint(identity, conditions)


def _processor(proc: Path) -> str:
    """Model name, and the board where there is one: many ARM boards share a processor name."""
    cpuinfo = _fields(proc / "cpuinfo")
    (model, *_) = cpuinfo.get("model name") or cpuinfo.get("Hardware") or [""]
    board = _text(proc / "device-tree/model")
    return ", ".join(name for name in (model, board) if name)


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _physical_cores(sysfs: Path) -> str:
    """How many of the usable cores are cores of their own: hyper-threads share one."""
    pattern = "devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list"
    siblings = {path.parts[-3]: _text(path) for path in _glob(sysfs, pattern)}
    found = {siblings.get(f"cpu{core}", "") for core in usable_cores()}
    return UNKNOWN if "" in found else str(len(found))


def crowding(fingerprint: Fingerprint) -> list[str]:
    """Whether threads share cores, so that they wait for each other."""
    threads = _number(fingerprint.identity.get("threads", ""))
    cores = _number(fingerprint.identity.get("cores", ""))
    physical = _number(fingerprint.conditions.get("physical_cores", ""))
    if threads is None or threads <= 1:
        return []
    for count, what in ((cores, "core"), (physical, "physical core")):
        if count is not None and threads > count:
            return [
                f"{threads:.0f} threads share {count:.0f} {what}{'s' * (count > 1)}: measurements"
                f" scatter more than with --threads {count:.0f}"
            ]
    return []


def takes_all_cores(fingerprint: Fingerprint) -> bool:
    """Whether several threads leave no core free for anybody else."""
    cores = _number(fingerprint.identity.get("cores", ""))
    return cores is not None and threads_of(fingerprint) >= max(cores, 2)


def threads_of(fingerprint: Fingerprint) -> int:
    """How many threads a step uses; 1 where nobody says."""
    threads = _number(fingerprint.identity.get("threads", ""))
    return max(1, int(threads)) if threads is not None and math.isfinite(threads) else 1


def _memory(proc: Path) -> str:
    total = _fields(proc / "meminfo").get("MemTotal", [""])[0].partition(" ")[0]
    kib = _number(total)
    if kib is None or kib <= 0:
        try:
            kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024
        except (AttributeError, OSError, ValueError):
            return UNKNOWN
    # The kernel keeps a little for itself, and that varies: rounded up it is what is built in.
    return f"{math.ceil(kib / 2**20)} GiB"


def _power_mode(sysfs: Path, var: Path) -> str:
    """Governors, the platform's profile, and on a Jetson the mode that nvpmodel has set."""
    governors = _texts(sysfs, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    profile = _text(sysfs / "firmware/acpi/platform_profile")
    jetson = " ".join(_text(var / "lib/nvpmodel/status").split())  # pmode:0002 fmode:quiet
    return ", ".join([*sorted(set(governors)), *filter(None, (profile, jetson))])


def clock_mhz(proc: Path, sysfs: Path) -> float | None:
    """How fast the cores run at present, on average; None where nobody tells."""
    khz = _numbers(_texts(sysfs, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"))
    mhz = [clock / 1000 for clock in khz] or _numbers(_fields(proc / "cpuinfo").get("cpu MHz", []))
    return sum(mhz) / len(mhz) if mhz else None


def temperature_c(sysfs: Path) -> float | None:
    """How warm the warmest part is that has a sensor; None where none has."""
    zones = _numbers(_texts(sysfs, "class/thermal/thermal_zone*/temp"))
    # Zones without a sensor behind them say 0, -274000 or some other nonsense.
    plausible = [zone / 1000 for zone in zones if 0 < zone < 150_000]
    return max(plausible, default=None)


def power_source(sysfs: Path) -> str:
    """Mains, battery or unknown."""
    batteries = []
    for supply in _glob(sysfs, "class/power_supply/*"):
        if _text(supply / "scope") == "Device":  # of a mouse or a headset
            continue
        if _text(supply / "type") == "Battery":
            batteries.append(_text(supply / "status"))
        elif _text(supply / "online") == "1":
            return "mains"
    if "Discharging" in batteries:
        return "battery"
    return "mains" if {"Charging", "Full", "Not charging"} & set(batteries) else UNKNOWN


def _rounded(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def _both(before: Fingerprint, now: Fingerprint, key: str) -> list[float] | None:
    values = _numbers(moment.conditions.get(key, "") for moment in (before, now))
    return values if len(values) == 2 else None


def _fields(path: Path) -> dict[str, list[str]]:
    """Lines of the form `name : value`, which may repeat."""
    values: dict[str, list[str]] = {}
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        values.setdefault(name.strip(), []).append(value.strip())
    return values


def _glob(root: Path, pattern: str) -> list[Path]:
    try:
        return sorted(root.glob(pattern))
    except OSError:
        return []


def _texts(root: Path, pattern: str) -> list[str]:
    return [text for path in _glob(root, pattern) if (text := _text(path))]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace").strip("\0 \t\r\n")
    except OSError:
        return ""


def _numbers(texts: Iterable[str]) -> list[float]:
    return [number for text in texts if (number := _number(text)) is not None]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def describe_device(fingerprint: Fingerprint) -> str:
    """A device in a few words: what a reader needs to know whose joules these are."""
    identity = fingerprint.identity
    if "device" in identity:
        return identity["device"]
    threads = identity.get("threads", "?")
    parts = [
        fingerprint.conditions.get("host", ""),
        identity.get("processor", ""),
        f"{identity.get('cores', '?')} cores",
        "1 thread" if threads == "1" else f"{threads} threads",
        identity.get("accelerator", ""),
        identity.get("framework", ""),
    ]
    return ", ".join(part for part in parts if part)
