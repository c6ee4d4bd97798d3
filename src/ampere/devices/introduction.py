"""Introduction: what a worker says of its device when it is opened, and must say again later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ampere.core.types import Json
from ampere.core.workloads import Settings
from ampere.errors import DeviceError
from ampere.meters.base import Provenance
from ampere.meters.registry import meter_classes


@dataclass(frozen=True)
class Introduction:
    """A device as its worker introduces it; a later worker must say the same."""

    framework: str
    threads: int
    freed_memory: str
    provenance: str
    meter: Mapping[str, Json]
    identity: Mapping[str, str]

    @classmethod
    def from_answers(cls, opened: Mapping[str, Any], described: Mapping[str, Any]) -> Introduction:
        """What the answers to `open` and `describe` say."""
        own = {field.name: opened.get(field.name) for field in fields(cls)}
        return cls(**{**own, "identity": described["identity"]})

    @property
    def joules_are(self) -> Provenance:
        """Where the meter's joules come from."""
        return Provenance(self.provenance)

    def identity_in(self, settings: Settings) -> dict[str, str]:
        """What must stay the same for measurements to mix: hardware, settings, framework, meter."""
        chosen = {k: str(v) for k, v in asdict(settings).items() if k != "threads"}
        return {
            **self.identity,
            **chosen,
            "threads": str(self.threads),
            "framework": str(self.framework),
            "freed_memory": str(self.freed_memory),
            "meter": _meter_text(self.meter),
        }

    def refuse_another(self, now: Introduction) -> None:
        """Raise unless a device that came back is the one that it was."""
        names = [field.name for field in fields(self)]
        changed = [name for name in names if getattr(self, name) != getattr(now, name)]
        if changed:
            raise DeviceError(
                f"the device came back with another {', '.join(changed)}: begin a new profile"
            )


def _meter_text(meter: Mapping[str, Json]) -> str:
    """A meter for the fingerprint: where it is found may change from day to day."""
    driver = meter_classes().get(meter["name"])
    addresses = driver.addresses if driver else ()
    settings = ",".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in sorted(meter["settings"].items())
        if key not in addresses
    )
    return f"{meter['name']}:{settings}" if settings else str(meter["name"])
