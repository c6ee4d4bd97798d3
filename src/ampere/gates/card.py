"""Card: what a run has emitted, as the Hugging Face Hub reads it from a model's card.

co2_eq_emissions:
emissions: 12.3            # grams
source: "ampere 1.2.3, joules modelled from CPU time, not measured, 56 g/kWh (France ...)"
training_type: "fine-tuning"
geographical_location: "France"
hardware_used: "pi, Cortex-A72, 4 cores"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ampere import __version__
from ampere.core.rates import J_PER_KWH, Rate
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.gates.sinks.base import seconds
from ampere.gates.story import End, Event, Start, Status, Verdict
from ampere.meters.base import Provenance

_UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
TRAINING_TYPES = ("pre-training", "fine-tuning")


@dataclass(frozen=True)
class Card:
    """What a model's card says of its training."""

    emissions_g: float
    energy_j: float
    provenance: Provenance
    source: str
    training_type: str = ""
    location: str = ""
    hardware: str = ""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """As the Hub has it, and what it rests on."""
        return {
            "co2_eq_emissions": self._fields(),
            "energy_j": self.energy_j,
            "provenance": self.provenance.value,
            "warnings": list(self.warnings),
        }

    def text(self) -> str:
        """Lines of YAML for the head of a README.md; a JSON text is one of YAML's, too."""
        lines = [f"  {name}: {_quoted(value)}" for name, value in self._fields().items()]
        return "\n".join(["co2_eq_emissions:", *lines])

    def _fields(self) -> dict[str, Json]:
        said = {
            "training_type": self.training_type,
            "geographical_location": self.location,
            "hardware_used": self.hardware,
        }
        known = {name: text for name, text in said.items() if text}
        return {"emissions": float(f"{self.emissions_g:.4g}"), "source": self.source, **known}


def _quoted(value: Json) -> str:
    """As JSON; what YAML takes for the end of a line, or does not print, is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@dataclass(frozen=True)
class _Part:
    """A run from one start to the next, or to its end: one that is resumed has several."""

    start: Start
    looks: tuple[Status | End, ...] = ()

    @property
    def energy_j(self) -> float:
        """What it took itself; joules after the last checkpoint were taken, too."""
        before_j = self.start.spent_j
        return max((look.spent_j for look in self.looks), default=before_j) - before_j

    def emitted_g(self, rate: Rate | None) -> float:
        """By the rate of each of its hours, or as its gate has weighed them."""
        if rate is None:
            return self._own_per_kwh() * self.energy_j / J_PER_KWH
        total, spent_j, time_s = 0.0, self.start.spent_j, seconds(self.start.time)
        for look in self.looks:
            now_s = seconds(look.time)
            total += rate.during(time_s, now_s).of(max(look.spent_j - spent_j, 0.0))
            spent_j, time_s = max(spent_j, look.spent_j), max(time_s, now_s)
        return total

    def _own_per_kwh(self) -> float:
        for look in reversed(self.looks):
            if isinstance(look, Status) and look.spent_gco2e is not None and look.spent_j > 0:
                return look.spent_gco2e / look.spent_j * J_PER_KWH
        if self.start.carbon_g_per_kwh is None:
            raise DataError(
                "the run was told no carbon intensity: give --carbon FR, 56g/kWh or hourly.csv"
            )
        return self.start.carbon_g_per_kwh


def make_card(
    events: Iterable[Event],
    *,
    carbon: Rate | None = None,
    training_type: str = "",
    location: str = "",
    hardware: str = "",
) -> Card:
    """What the story of a run comes to.

    Args:
        events: Of its file.
        carbon: What a kilowatt-hour emits; as the run was told unless given.
        training_type: One of `TRAINING_TYPES`, if it is to be said.
        location: Where it was trained; by default the country of the rate.
        hardware: By default the device of the story.

    Raises:
        DataError: There is no run, it took nothing, or nobody knows what a kilowatt-hour emits.
    """
    if training_type and training_type not in TRAINING_TYPES:
        raise DataError(f"a training is one of {', '.join(TRAINING_TYPES)}, not {training_type!r}")
    parts = _parts(events)
    if not parts:
        raise DataError("the story has no start: is it of a run?")
    first, last = parts[0], parts[-1]
    earlier_j = first.start.spent_j  # of a run whose beginning is in another file
    energy_j = earlier_j + sum(part.energy_j for part in parts)
    if not energy_j > 0:
        raise DataError("the run took no joules that were metered: there is nothing to tell")
    emitted_g = sum(part.emitted_g(carbon) for part in parts)
    emitted_g += emitted_g * earlier_j / (energy_j - earlier_j) if energy_j > earlier_j else 0.0
    grid = last.start.grid if carbon is None else carbon.place
    return Card(
        emissions_g=emitted_g,
        energy_j=energy_j,
        provenance=last.start.provenance,
        source=_source(parts, emitted_g / energy_j * J_PER_KWH, carbon),
        training_type=training_type,
        location=location or grid,
        hardware=hardware or last.start.device,
        warnings=tuple(_warnings(parts)),
    )


def _parts(events: Iterable[Event]) -> list[_Part]:
    parts: list[tuple[Start, list[Status | End]]] = []
    for event in events:
        if isinstance(event, Start):
            parts.append((event, []))
        elif parts:
            parts[-1][1].append(event)
    return [_Part(start, tuple(looks)) for start, looks in parts]


def _source(parts: list[_Part], per_kwh: float, carbon: Rate | None) -> str:
    origins = dict.fromkeys(part.start.provenance.origin for part in parts)
    where = f" ({carbon.source})" if carbon is not None and carbon.source else ""
    return f"ampere {__version__}, joules {' and '.join(origins)}, {per_kwh:.4g} g/kWh{where}"


def _warnings(parts: list[_Part]) -> Iterable[str]:
    if not (parts[-1].looks and isinstance(parts[-1].looks[-1], End)):
        yield "the run has no end: what it took so far is told"
    statuses = (look for part in parts for look in part.looks if isinstance(look, Status))
    if any(status.verdict is Verdict.UNGATED for status in statuses):
        yield "the meter failed for a while: joules of that time are not in it"
