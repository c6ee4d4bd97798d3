"""`ampere meters`: what can measure here, and what the rest would take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.shell import json_text
from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import MeterError, MeterFault

if TYPE_CHECKING:
    from ampere.meters.base import Meter, Reading, Resolution
    from ampere.meters.registry import MeterStatus

LOOK_S = 2.0
SILENT = ("replay", "fake")  # they show nothing of this machine
ASSUMED = "2.7 W idle and 0.9 W for each busy core are assumptions; `ampere calibrate` fits them"


def meters(
    accelerator: Annotated[
        str, typer.Option(metavar="NAME", help="Whose joules are wanted: cpu, cuda or mps.")
    ] = "cpu",
    as_json: AsJson = False,
) -> str:
    """List the meters of this machine.

    Which of them can be used, with a live reading of two seconds, how finely they tell, and what it
    would take to use the others.
    """
    from ampere.core.workloads import ACCELERATORS
    from ampere.meters.registry import describe_meters

    if accelerator not in ACCELERATORS:
        raise typer.BadParameter(f"{accelerator!r} is not one of {', '.join(ACCELERATORS)}")
    statuses = describe_meters(accelerator)
    default = next((meter.name for meter in statuses if meter.default), None)
    looks = _look(
        [meter.name for meter in statuses if meter.available and meter.name not in SILENT]
    )
    calibration, watts = _calibration()
    if as_json:
        listed = [
            {
                **asdict(meter),
                "provenance": meter.provenance and meter.provenance.value,
                "reading": looks.get(meter.name),
            }
            for meter in statuses
        ]
        return json_text({"default": default, "calibration": calibration, "meters": listed})
    rows = [_row(meter, looks.get(meter.name, {})) for meter in statuses]
    headers = ("meter", "joules", "usable", "now", "tells", "")
    facts = [
        ("auto", f"takes {default or f'none: nothing here holds the joules of {accelerator}'}"),
        ("cpu", watts),
        ("more", "docs/meters.md has what each reads, and its settings"),
    ]
    page = Page(
        title="Meters of this machine", headers=headers, rows=rows, align="<<<><<", facts=facts
    )
    return page.text()


def _briefly(text: Json) -> str:
    """Without the advice that the table itself gives."""
    return str(text).removesuffix("; choose another meter")


def _row(meter: MeterStatus, look: Mapping[str, Json]) -> tuple[str, ...]:
    return (
        f"{meter.name} (auto)" if meter.default else meter.name,
        meter.provenance.value if meter.provenance else units.UNKNOWN,
        "yes" if meter.available and "failed" not in look else "no",
        units.watts(look["power_w"]) if "power_w" in look else "",
        str(look.get("tells", "")),
        _briefly(look.get("failed") or look.get("doubt") or meter.obstacle or meter.summary),
    )


def _calibration() -> tuple[Json, str]:
    """What the meter `cpu` was fitted to, as data and in words."""
    from ampere.meters.calibration import stored

    try:
        fitted = stored()
    except MeterError as error:
        return None, str(error)
    return (None, ASSUMED) if fitted is None else (asdict(fitted), str(fitted))


def _look(names: list[str]) -> dict[str, dict[str, Json]]:
    """What these meters show over two seconds, all at once."""
    from ampere.meters.calibration import calibrated
    from ampere.meters.registry import open_meter

    looks: dict[str, dict[str, Json]] = {name: {} for name in names}
    opened: dict[str, Meter] = {}
    before: dict[str, Reading] = {}
    try:
        for name, look in looks.items():
            with _noted(look):
                opened[name] = open_meter(name, **calibrated(name, {}))
                before[name] = opened[name].read()
        time.sleep(LOOK_S)
        for name, first in before.items():
            with _noted(looks[name]):
                _show(looks[name], opened[name], first)
    finally:
        for meter in opened.values():
            with suppress(Exception):
                meter.close()
    return looks


@contextmanager
def _noted(look: dict[str, Json]) -> Iterator[None]:
    """Write down what goes wrong with a meter; others are looked at all the same."""
    try:
        yield
    except MeterFault as error:  # it may only be slow: a battery moves once in a minute
        look["doubt"] = str(error)
    except MeterError as error:
        look["failed"] = str(error)
    except Exception as error:  # another package's meter may fail in any way
        look["failed"] = f"reading it failed ({error!r}); repair the package that registers it"


def _show(look: dict[str, Json], meter: Meter, first: Reading) -> None:
    from ampere.meters.base import energy_between

    last = meter.read()
    look.update(resolution=asdict(meter.resolution), tells=_tells(meter.resolution))
    window = energy_between(first, last)
    look.update(**asdict(window), power_w=window.power_w)


def _tells(resolution: Resolution) -> str:
    parts = []
    if resolution.energy_j:
        parts.append(units.joules(resolution.energy_j))
    if resolution.period_s:
        parts.append(f"every {units.seconds(resolution.period_s)}")
    return " ".join(parts) or "any time"


METERS = Command(meters, "ampere meters")
