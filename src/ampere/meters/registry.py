"""The meters of this machine: which there are, which can be used, and how one is opened.

A meter is a subclass of `Meter`. ampere's own stand in the folder `drivers`, one file a meter that
has its name; its `rung` says where it stands on the ladder that `auto` climbs, best first. One from
another package registers by an entry point:

    [project.entry-points."ampere.meters"]
    ina219 = "my_package:Ina219Meter"
"""

from __future__ import annotations

import contextlib
import inspect
import pkgutil
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from ampere.errors import MeterError
from ampere.meters import drivers
from ampere.meters.base import AUTO, Meter, Provenance, Reading, Resolution, Window, energy_between

__all__ = [
    "AUTO",
    "Meter",
    "MeterStatus",
    "Provenance",
    "Reading",
    "Resolution",
    "Window",
    "choose_meter",
    "describe_meters",
    "energy_between",
    "meter_classes",
    "open_meter",
    "own_meters",
    "parse_meter",
]

GROUP = "ampere.meters"


@dataclass(frozen=True)
class MeterStatus:
    """One line of the list of meters; a meter that cannot be imported has no provenance."""

    name: str
    provenance: Provenance | None
    summary: str
    available: bool
    obstacle: str | None
    default: bool


def meter_classes() -> dict[str, type[Meter]]:
    """Every registered meter that can be imported, by name."""
    classes = {}
    for name, entry in _registered().items():
        try:
            classes[name] = _load(entry)
        except MeterError:
            continue  # describe_meters shows it, opening it says why
    return classes


def describe_meters(accelerator: str = "cpu") -> list[MeterStatus]:
    """Every registered meter, whether it can be used here, and which one `auto` takes."""
    try:
        default = _best(accelerator)
    except MeterError:
        default = ""
    return [_describe(entry, default=entry.name == default) for entry in _ladder()]


def choose_meter(name: str = AUTO, accelerator: str = "cpu") -> str:
    """The name of a registered meter; `auto` becomes the best one that can be used here.

    Hardware counters and sensors that hold the accelerator's joules come before the `cpu` model.
    Simulated and recorded joules, and those that come too late to guide profiling, are only taken
    when named.
    """
    if not isinstance(name, str):  # text of a file or a device is none
        raise MeterError(f"a meter is named by a text that the user typed, not by {name!r:.80}")
    return _best(accelerator) if name == AUTO else _find(name).name


def open_meter(name: str = AUTO, /, **settings: float | str) -> Meter:
    """Open a meter by name with its settings.

    Raises:
        MeterError: If there is no such meter or setting, or the meter cannot be used here.
    """
    name = choose_meter(name)
    for setting, value in settings.items():
        if not isinstance(value, (int, float, str)):
            raise MeterError(
                f"meter {name}: {setting} must be a number or a text, not {value!r:.80}"
            )
    driver: Any = _load(_find(name))  # settings differ from driver to driver
    signature = inspect.signature(driver)
    try:
        signature.bind(**settings)
    except TypeError as error:
        names = ", ".join(signature.parameters) or "none"
        raise MeterError(f"meter {name}: {error}; its settings are: {names}") from None
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
        settings[key] = _typed(name, key, value)
    if not name:
        raise MeterError(f"meter {text!r} has no name; {_known()}")
    return name, settings


def _typed(name: str, key: str, value: str) -> float | str:
    """A setting as a number, unless the driver takes it as a text first: serials have digits."""
    wanted = ""
    with contextlib.suppress(MeterError):
        parameter = inspect.signature(_load(_find(name))).parameters.get(key)
        wanted = str(parameter.annotation) if parameter else ""
    try:
        return value if wanted.startswith("str") else float(value)
    except ValueError:
        return value


def own_meters() -> tuple[str, ...]:
    """Names of ampere's own meters: those of the files in `drivers`."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(drivers.__path__)))


def _registered() -> dict[str, EntryPoint]:
    """Entry points by name: ampere's own, which nobody replaces, then the others in order."""
    own = {name: EntryPoint(name, f"{drivers.__name__}.{name}", GROUP) for name in own_meters()}
    installed: Any = entry_points()  # before Python 3.10 it is a dict
    if hasattr(installed, "select"):
        others = installed.select(group=GROUP)
    else:
        others = installed.get(GROUP, ())
    others = sorted(others, key=lambda entry: (entry.name, entry.value))
    return {**own, **{entry.name: entry for entry in others if entry.name not in own}}


def _ladder() -> list[EntryPoint]:
    """Own meters from the first rung to the last, then the others."""
    own = own_meters()
    return sorted(
        _registered().values(),
        key=lambda entry: (0, _load(entry).rung) if entry.name in own else (1, 0),
    )


def _known() -> str:
    return f"known meters: {', '.join([AUTO, *(entry.name for entry in _ladder())])}"


def _find(name: str) -> EntryPoint:
    try:
        return _registered()[name]
    except KeyError:
        raise MeterError(f"there is no meter named {name!r}; {_known()}") from None


def _load(entry: EntryPoint) -> type[Meter]:
    try:
        driver = entry.load()
    except Exception as error:  # another package's import may fail in any way
        raise MeterError(
            f"meter {entry.name} cannot be imported from {entry.value} ({error!r}); "
            "repair or remove the package that registers it"
        ) from error
    if isinstance(driver, ModuleType):
        driver = _only_meter(driver)
    if not (isinstance(driver, type) and issubclass(driver, Meter)):
        raise MeterError(f"{entry.value} is no meter: derive it from ampere.Meter")
    missing = [a for a in ("name", "provenance", "summary") if not hasattr(driver, a)]
    if missing:
        raise MeterError(f"{entry.value} is no meter: it lacks {', '.join(missing)}; repair it")
    return driver


def _only_meter(module: ModuleType) -> type[Meter]:
    """The meter that a file of `drivers` holds; what begins with an underscore is a part of it."""
    meters = [
        each
        for name, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Meter) and each.__module__ == module.__name__ and name[0] != "_"
    ]
    if len(meters) != 1:
        raise MeterError(f"{module.__name__} holds {len(meters)} meters: put one into each file")
    return meters[0]


def _obstacle(driver: type[Meter]) -> str | None:
    try:
        return driver.obstacle()
    except Exception as error:  # one faulty meter must not hide the others
        return f"looking for it failed ({error!r}); repair the package that registers it"


def _describe(entry: EntryPoint, *, default: bool) -> MeterStatus:
    name = entry.name
    try:
        driver = _load(entry)
    except MeterError as error:
        return MeterStatus(name, None, "", False, str(error), default)
    obstacle = _obstacle(driver)
    return MeterStatus(name, driver.provenance, driver.summary, obstacle is None, obstacle, default)


def _best(accelerator: str) -> str:
    """What `auto` takes: the first rung of hardware that can be used, else the model."""
    own, others = own_meters(), []
    for entry in _ladder():
        provenance = _usable_hardware(entry, accelerator)
        if provenance is None:
            continue
        if entry.name in own:
            return entry.name
        others.append((provenance is Provenance.SENSOR, entry.name))  # their counters come first
    if others:
        return min(others)[1]
    if accelerator in _load(_find("cpu")).accelerators:
        return "cpu"
    raise MeterError(
        f"no meter here holds the joules of {accelerator}: `ampere meters --accelerator"
        f" {accelerator}` says what the others need"
    )


def _usable_hardware(entry: EntryPoint, accelerator: str) -> Provenance | None:
    """The provenance of a meter that can be used here, if it is of hardware that joules go into."""
    try:
        driver = _load(entry)
    except MeterError:
        return None
    hardware = driver.provenance in (Provenance.COUNTER, Provenance.SENSOR)
    fits = accelerator in driver.accelerators and not driver.outside
    return driver.provenance if hardware and fits and _obstacle(driver) is None else None
