"""Quote: what a client of a federation says that a round of training takes of it.

    Quote(samples=320, steps=20, energy_j=41, energy_j_bound=48, battery=Battery(900, 4000, 800))

It comes from a device of somebody else's: numbers that cannot be are refused (`from_json`), and
those that only are not true can harm nobody but the one who says them (`rounds.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ampere.core.boundary.fields import Fields
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.fleet.member import Battery
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import MOST_J, MOST_S

MOST_STEPS = 10**9  # of a round, and samples
MOST_LOSS = 1e6


@dataclass(frozen=True)
class Quote:
    """A whole round on one client.

    Args:
        samples: That a whole round trains on.
        steps: Of a whole round.
        energy_j: Half of such rounds take less; None if the client has no profile.
        energy_j_bound: 90 % of such rounds take less.
        time_s: Half of them take less; None if it is not known.
        time_s_bound: 90 % of them take less.
        fixed_j: What of these joules a shorter round takes, too: sending the model, starting.
        battery: What the client runs on; None if that is the mains.
        plugged_in: Whether the battery is being charged, so that it does not matter now.
        loss: Root mean square of its samples' losses, if it tells.
        spent_j: What its last round took, if it metered that.
        provenance: Where its joules come from.
    """

    samples: int
    steps: int
    energy_j: float | None = None
    energy_j_bound: float | None = None
    time_s: float | None = None
    time_s_bound: float | None = None
    fixed_j: float = 0.0
    battery: Battery | None = None
    plugged_in: bool = False
    loss: float | None = None
    spent_j: float | None = None
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        _check_pair("energy_j", self.energy_j, self.energy_j_bound)
        _check_pair("time_s", self.time_s, self.time_s_bound)
        if min(self.samples, self.steps) < 1:
            raise DataError("a round has one sample and one step at least")
        if not 0 <= self.fixed_j < (math.inf if self.energy_j is None else self.energy_j):
            raise DataError(f"fixed_j of {self.fixed_j:g} J is not a part of the round's joules")

    @property
    def usable_j(self) -> float:
        """What it may spend now: all there is at a socket."""
        if self.battery is None or self.plugged_in:
            return math.inf
        return self.battery.usable_j

    def energy_j_of(self, steps: int) -> float | None:
        """Half of the rounds of so many steps take less."""
        return self._part(self.energy_j, steps)

    def energy_j_bound_of(self, steps: int) -> float | None:
        """90 % of the rounds of so many steps take less."""
        return self._part(self.energy_j_bound, steps)

    def _part(self, energy_j: float | None, steps: int) -> float | None:
        if energy_j is None or steps == self.steps:
            return energy_j
        return self.fixed_j + (energy_j - self.fixed_j) * steps / self.steps

    def steps_within(self, usable_j: float, round_s: float | None = None) -> int:
        """The most steps that fit into both, with 90 % each; joules that nobody knows never fit."""
        return min(self._steps_of_joules(usable_j), self._steps_of_seconds(round_s))

    def _steps_of_joules(self, usable_j: float) -> int:
        if usable_j == math.inf:
            return self.steps
        if self.energy_j_bound is None:
            return 0
        steps_j = self.energy_j_bound - self.fixed_j
        steps = _floor(self.steps * ((usable_j - self.fixed_j) / steps_j), self.steps)
        for fitting in (steps, steps - 1):  # the last digit may round up
            if fitting > 0 and (self.energy_j_bound_of(fitting) or math.inf) <= usable_j:
                return fitting
        return 0

    def _steps_of_seconds(self, round_s: float | None) -> int:
        if round_s is None or self.time_s_bound is None:
            return self.steps
        return _floor(self.steps * (round_s / self.time_s_bound), self.steps)

    def to_json(self) -> dict[str, Json]:
        """Flat plain data, without what is not known."""
        battery = self.battery
        row: dict[str, Any] = {
            "samples": self.samples,
            "steps": self.steps,
            "energy_j": self.energy_j,
            "energy_j_bound": self.energy_j_bound,
            "time_s": self.time_s,
            "time_s_bound": self.time_s_bound,
            "fixed_j": self.fixed_j,
            "battery_j": None if battery is None else battery.energy_j,
            "capacity_j": None if battery is None else battery.capacity_j,
            "reserve_j": None if battery is None else battery.reserve_j,
            "plugged_in": self.plugged_in,
            "loss": self.loss,
            "spent_j": self.spent_j,
            "provenance": None if self.provenance is None else self.provenance.value,
        }
        return {name: value for name, value in row.items() if value is not None}

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Quote:
        """Read what `to_json` made, or what somebody else says it did.

        Raises:
            DataError: It is something else, or has numbers that cannot be.
        """
        fields = Fields(row, where)
        provenances = [each.value for each in Provenance]
        stated = "provenance" in fields
        return cls(
            samples=fields.whole("samples", least=1, most=MOST_STEPS),
            steps=fields.whole("steps", least=1, most=MOST_STEPS),
            energy_j=fields.number("energy_j", None, above=0.0, most=MOST_J),
            energy_j_bound=fields.number("energy_j_bound", None, above=0.0, most=MOST_J),
            time_s=fields.number("time_s", None, above=0.0, most=MOST_S),
            time_s_bound=fields.number("time_s_bound", None, above=0.0, most=MOST_S),
            fixed_j=fields.number("fixed_j", 0.0, least=0.0, most=MOST_J),
            battery=_battery(fields),
            plugged_in=fields.flag("plugged_in"),
            loss=fields.number("loss", None, least=0.0, most=MOST_LOSS),
            spent_j=fields.number("spent_j", None, least=0.0, most=MOST_J),
            provenance=Provenance(fields.choice("provenance", provenances)) if stated else None,
        )


def _battery(fields: Fields) -> Battery | None:
    if "battery_j" not in fields:
        return None
    energy_j = fields.number("battery_j", least=0.0, most=MOST_J)
    capacity_j = fields.number("capacity_j", above=0.0, most=MOST_J)
    return Battery(energy_j, capacity_j, fields.number("reserve_j", 0.0, least=0.0, most=MOST_J))


def _check_pair(name: str, middle: float | None, bound: float | None) -> None:
    """Both or none; the bound is what is exceeded more rarely."""
    if (middle is None) != (bound is None):
        raise DataError(f"{name} and {name}_bound go together")
    if middle is not None and bound is not None and not 0 < middle <= bound < math.inf:
        raise DataError(f"{name} of {middle:g} with a bound of {bound:g} cannot be")


def _floor(value: float, most: int) -> int:
    return math.floor(min(max(value, 0.0), most))
