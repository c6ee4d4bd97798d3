"""Introduction: what a worker says of its device when it is opened, and must say again later.

A device describes the meter that the user asked for; it does not choose one. What it says of it is
text for the fingerprint and the journal, and never opens or imports anything here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields

from ampere.core.boundary.fields import Fields
from ampere.core.types import Json
from ampere.core.workloads import Settings
from ampere.errors import DataError, DeviceError
from ampere.meters.base import AUTO, Provenance, Resolution

PROVENANCES = tuple(each.value for each in Provenance)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of a meter that `auto` has become
SHORT = 200  # characters of a version, or of a setting's name
SETTINGS = 50  # of a meter
MOST_J, MOST_S = 1e9, 1e6  # of a meter's steps


@dataclass(frozen=True)
class Introduction:
    """A device as its worker introduces it; a later worker must say the same."""

    framework: str
    threads: int
    freed_memory: str
    provenance: Provenance
    meter: Mapping[str, Json]
    identity: Mapping[str, str] = field(default_factory=dict)
    # A meter learns how finely it tells, so that is no part of what must stay.
    resolution: Resolution = field(default=Resolution(), compare=False)

    @classmethod
    def from_answer(
        cls, opened: Fields, asked: Mapping[str, Json], outside: Provenance | None = None
    ) -> Introduction:
        """What the answer to `open` says; the identity is another answer's.

        Args:
            opened: The answer.
            asked: The meter in the user's words.
            outside: The provenance of a meter that is read on this side; nothing is asked of it.
        """
        read_here = outside is not None
        return cls(
            framework=opened.text("framework", most=SHORT),
            threads=opened.whole("threads", least=1, most=10**6),
            freed_memory=opened.text("freed_memory", most=SHORT),
            provenance=outside or Provenance(opened.choice("provenance", PROVENANCES)),
            meter=asked if read_here else read_meter(opened.inner("meter"), asked),
            resolution=Resolution() if read_here else read_resolution(opened),
        )

    def identity_in(self, settings: Settings, addresses: Collection[str] = ()) -> dict[str, str]:
        """What must stay the same for measurements to mix: hardware, settings, framework, meter.

        Args:
            settings: How the framework runs there.
            addresses: Settings of the meter that only say where it is.
        """
        return {
            **self.identity,
            **settings.told(),
            "threads": str(self.threads),
            "framework": self.framework,
            "freed_memory": self.freed_memory,
            "meter": _meter_text(self.meter, addresses),
        }

    def refuse_another(self, now: Introduction) -> None:
        """Raise unless a device that came back is the one that it was."""
        names = [each.name for each in fields(self) if each.compare]
        changed = [name for name in names if getattr(self, name) != getattr(now, name)]
        if changed:
            raise DeviceError(
                f"the device came back with another {', '.join(changed)}: begin a new profile"
            )

    def refuse_change(self, identity: Mapping[str, str]) -> None:
        """Raise unless a device is still what it was: a governor may change in mid-measurement."""
        changed = [
            f"{name} was {was}, now it is {identity.get(name)}"
            for name, was in self.identity.items()
            if identity.get(name) != was
        ]
        if changed:
            raise DeviceError(
                f"the device changed while it was measured: {'; '.join(changed)}; set it back, or"
                " begin a new profile"
            )


def read_resolution(answer: Fields) -> Resolution:
    """How finely the meter tells, as an answer says."""
    row = answer.inner("resolution")
    return Resolution(
        energy_j=row.number("energy_j", least=0.0, most=MOST_J),
        period_s=row.number("period_s", least=0.0, most=MOST_S),
    )


def read_meter(meter: Fields, asked: Mapping[str, Json]) -> Mapping[str, Json]:
    """The meter that was opened there: the one that was asked for, or any by name for `auto`."""
    name = meter.text("name", most=SHORT)
    if not NAME.fullmatch(name) if asked["name"] == AUTO else name != asked["name"]:
        meter.refuse("name", f"the name of the meter that was asked for ({asked['name']})")
    settings = meter.inner("settings")
    values = {each: _setting(settings, each) for each in settings.names(SETTINGS)}
    for key, value in asked["settings"].items():
        if values.get(key) != value:
            settings.refuse(key, f"{value!r}, as it was asked for")
    return {"name": name, "settings": values}


def _setting(settings: Fields, name: str) -> float | str:
    """A number or a text, as settings of meters are."""
    value = settings.plain(name)
    if len(name) > SHORT or isinstance(value, (bool, list, Mapping)):
        raise DataError(f"{settings.place(name[:SHORT])} must be a number or a text")
    number_or_text: float | str = value
    return number_or_text


def _meter_text(meter: Mapping[str, Json], addresses: Collection[str]) -> str:
    """A meter for the fingerprint: where it is found may change from day to day."""
    settings = ",".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in sorted(meter["settings"].items())
        if key not in addresses
    )
    return f"{meter['name']}:{settings}" if settings else str(meter["name"])
