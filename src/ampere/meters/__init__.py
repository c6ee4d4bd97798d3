"""The meters of this machine: which there are, which can be used, and how one is opened.

A meter is a class that the entry-point group `ampere.meters` names. One from another package
registers in the same way as ampere's own:

    [project.entry-points."ampere.meters"]
    ina219 = "my_package:Ina219Meter"
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol

from ampere.errors import MeterError
from ampere.meters.meter import Meter, Provenance, Reading, energy_between

__all__ = [
    "Meter",
    "MeterDriver",
    "MeterStatus",
    "Provenance",
    "Reading",
    "choose_meter",
    "describe_meters",
    "energy_between",
    "meter_classes",
    "open_meter",
    "parse_meter",
]

AUTO = "auto"
GROUP = "ampere.meters"

# Also in pyproject.toml; repeated so that ampere runs from a checkout that is not installed.
_OWN = {
    "rapl": "ampere.meters.rapl:RaplMeter",
    "cpu": "ampere.meters.cpu:CpuMeter",
    "replay": "ampere.meters.replay:ReplayMeter",
    "fake": "ampere.meters.fake:FakeMeter",
}


class MeterDriver(Meter, Protocol):
    """A meter that can be registered: a `Meter` that says what it is before it is opened.

    Settings are keyword arguments of `__init__`, each a number or a string, so that another process
    can open the same meter from plain data.
    """

    name: ClassVar[str]
    provenance: ClassVar[Provenance]
    summary: ClassVar[str]

    @classmethod
    def obstacle(cls) -> str | None:
        """None if the meter can be used here, else one line: what is wrong and what to do."""
        ...


@dataclass(frozen=True)
class MeterStatus:
    """One line of the list of meters; a meter that cannot be imported has no provenance."""

    name: str
    provenance: Provenance | None
    summary: str
    available: bool
    obstacle: str | None
    default: bool


def meter_classes() -> dict[str, type[MeterDriver]]:
    """Every registered meter that can be imported, by name."""
    classes = {}
    for name in _registered():
        try:
            classes[name] = _load(name)
        except MeterError:
            continue  # describe_meters shows it, opening it says why
    return classes


def describe_meters() -> list[MeterStatus]:
    """Every registered meter, whether it can be used here, and which one `auto` takes."""
    default = _best()
    return [_describe(name, default=name == default) for name in _registered()]


def choose_meter(name: str = AUTO) -> str:
    """The name of a registered meter; `auto` becomes the best one that can be used here.

    Hardware counters and sensors come before the `cpu` model, RAPL before the others. Simulated and
    recorded joules, and those that come too late to guide profiling, are only taken when named.
    """
    return _best() if name == AUTO else _find(name).name


def open_meter(name: str = AUTO, /, **settings: float | str) -> Meter:
    """Open a meter by name with its settings.

    Raises:
        MeterError: If there is no such meter or setting, or the meter cannot be used here.
    """
    name = choose_meter(name)
    driver: Any = _load(name)  # settings differ from driver to driver
    signature = inspect.signature(driver)
    try:
        signature.bind(**settings)
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise MeterError(f"meter {name}: {error}; its settings are: {known}") from None
    try:
        meter: Meter = driver(**settings)
    except (TypeError, ValueError) as error:
        raise MeterError(f"meter {name} does not take {settings}: {error}") from error
    return meter


def parse_meter(text: str) -> tuple[str, dict[str, float | str]]:
    """Read a meter as it is written on the command line: `rapl`, `cpu:idle_w=2.5,active_w=9`."""
    name, colon, rest = text.strip().partition(":")
    settings: dict[str, float | str] = {}
    for setting in rest.split(",") if colon else ():
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not (key and equals and value):
            raise MeterError(f"meter {text!r}: write it as name:setting=value,setting=value")
        if key in settings:
            raise MeterError(f"meter {text!r}: {key} is given twice; keep one")
        try:
            settings[key] = float(value)
        except ValueError:
            settings[key] = value
    if not name:
        raise MeterError(f"meter {text!r} has no name; {_known()}")
    return name, settings


def _registered() -> dict[str, EntryPoint]:
    """Entry points by name: ampere's own, which nobody replaces, then the others in order."""
    own = {name: EntryPoint(name, value, GROUP) for name, value in _OWN.items()}
    others = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return own | {entry.name: entry for entry in others if entry.name not in own}


def _known() -> str:
    return f"known meters: {', '.join([AUTO, *_registered()])}"


def _find(name: str) -> EntryPoint:
    try:
        return _registered()[name]
    except KeyError:
        raise MeterError(f"there is no meter named {name!r}; {_known()}") from None


def _load(name: str) -> type[MeterDriver]:
    entry = _find(name)
    try:
        driver = entry.load()
    except Exception as error:  # another package's import may fail in any way
        raise MeterError(
            f"meter {name} cannot be imported from {entry.value} ({error!r}); "
            "repair or remove the package that registers it"
        ) from error
    missing = [
        a for a in (*MeterDriver.__annotations__, "obstacle", "read") if not hasattr(driver, a)
    ]
    if missing:
        raise MeterError(f"{entry.value} is no meter: it lacks {', '.join(missing)}; repair it")
    return driver  # type: ignore[no-any-return]


def _obstacle(driver: type[MeterDriver]) -> str | None:
    try:
        return driver.obstacle()
    except Exception as error:  # one faulty meter must not hide the others
        return f"looking for it failed ({error!r}); repair the package that registers it"


def _describe(name: str, *, default: bool) -> MeterStatus:
    try:
        driver = _load(name)
    except MeterError as error:
        return MeterStatus(name, None, "", False, str(error), default)
    obstacle = _obstacle(driver)
    return MeterStatus(name, driver.provenance, driver.summary, obstacle is None, obstacle, default)


def _best() -> str:
    """What `auto` takes: hardware if any can be used, RAPL first, else the model."""
    others = (name for name in _registered() if name not in _OWN)
    for name in ("rapl", *others):
        try:
            driver = _load(name)
        except MeterError:
            continue
        hardware = driver.provenance in (Provenance.COUNTER, Provenance.SENSOR)
        if hardware and _obstacle(driver) is None:
            return name
    return "cpu"
