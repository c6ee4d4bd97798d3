"""The sinks there are, and how one is opened: `csv`, `prometheus:file=/var/lib/x/ampere.prom`.

ampere's own stand in this folder, one file a sink; its class says the name. One from another
package registers by an entry point, which names what makes it from a run's folder and settings:

    [project.entry-points."ampere.sinks"]
    mqtt = "my_package:MqttSink"
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ampere.errors import DataError, MissingLibrary
from ampere.gates import sinks
from ampere.gates.sinks.base import Sink

GROUP = "ampere.sinks"
_NO_SINKS = ("base", "registry")


def sink_names() -> tuple[str, ...]:
    """Ampere's own, then those of other packages."""
    own = sorted(_own())
    others = sorted({entry.name for entry in entry_points(group=GROUP)} - set(own))
    return (*own, *others)


def open_sink(spec: str | Sink, run: str | Path | None) -> Sink:
    """Open a sink by its name and settings; one that is made already is taken as it is.

    Args:
        spec: `json`, `csv:file=emissions.csv`, ... as the user typed it.
        run: The run's folder, which need not be there yet; None if it has none.

    Raises:
        DataError: There is no such sink or setting.
        MissingLibrary: Its library is not installed; the line names the extra.
    """
    if not isinstance(spec, str):
        return spec
    name, settings = parse_sink(spec)
    make = _find(name)
    _check(make, name, settings)
    try:
        return make(None if run is None else Path(run), **settings)
    except ModuleNotFoundError as error:
        title = getattr(make, "library", None)
        if title is None:
            raise
        raise MissingLibrary(
            f"the sink {name} needs {title}: pip install 'ampere-energy[{name}]'", name=error.name
        ) from None


def parse_sink(text: str) -> tuple[str, dict[str, str]]:
    """Read a sink as it is typed: `name`, or `name:setting=value,setting=value`."""
    name, colon, rest = text.strip().partition(":")
    settings: dict[str, str] = {}
    for setting in rest.split(",") if colon else ():
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not (key and equals and value):
            raise DataError(f"sink {text!r}: write it as name:setting=value,setting=value")
        if key in settings:
            raise DataError(f"sink {text!r}: {key} is given twice; keep one")
        settings[key] = value
    return name, settings


def _own() -> dict[str, Callable[..., Sink]]:
    """The sinks of this folder: importing one needs no library, opening it may."""
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.iter_modules(sinks.__path__):
        if module.name not in _NO_SINKS:
            loaded = import_module(f"{sinks.__name__}.{module.name}")
            for _, each in inspect.getmembers(loaded, inspect.isclass):
                if each.__module__ == loaded.__name__ and hasattr(each, "name"):
                    found[each.name] = each
    return found


def _find(name: str) -> Callable[..., Sink]:
    own = _own()
    if name in own:  # which nobody replaces
        return own[name]
    for entry in sorted(entry_points(group=GROUP, name=name), key=lambda entry: entry.value):
        try:
            make: Callable[..., Sink] = entry.load()
        except Exception as error:  # another package's import may fail in any way
            raise DataError(
                f"sink {name} cannot be imported from {entry.value} ({error!r}); repair or remove"
                " the package that registers it"
            ) from error
        return make
    raise DataError(f"there is no sink named {name!r}; known sinks: {', '.join(sink_names())}")


def _check(make: Callable[..., Any], name: str, settings: dict[str, str]) -> None:
    signature = inspect.signature(make)
    try:
        signature.bind(Path(), **settings)
    except TypeError as error:
        names = ", ".join(list(signature.parameters)[1:]) or "none"
        raise DataError(f"sink {name}: {error}; its settings are: {names}") from None
