"""Objective: what a plan shall have little of: joules, grams, money, seconds, or a mix of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ampere.core.rates import J_PER_KWH
from ampere.errors import DataError
from ampere.fleet.member import Fleet, Member

NAMES = ("energy", "carbon", "price", "makespan")
PLUS = " + "  # between the parts of a mix, such as `1 energy + 0.2 makespan`


@dataclass(frozen=True)
class Objective:
    """A weight for each of joules, grams of CO2e, money, and seconds until all is done."""

    energy: float = 0.0
    carbon: float = 0.0
    price: float = 0.0
    makespan: float = 0.0

    @classmethod
    def of(cls, said: str | Mapping[str, float]) -> Objective:
        """From one name, from names with weights, or from what a plan says of its own mix.

        Raises:
            DataError: There is no such thing, or no weight above 0.
        """
        weights = _weights(said) if isinstance(said, str) else dict(said)
        for name, weight in weights.items():
            if name not in NAMES:
                raise DataError(f"nothing is planned by {name!r}: use {', '.join(NAMES)}")
            if not 0 <= weight < math.inf:
                raise DataError(f"a weight of {weight} for {name} cannot be: use 0 or more")
        if not any(weights.values()):
            raise DataError(f"a plan needs an objective: give {', '.join(NAMES)} a weight above 0")
        return cls(**weights)

    def __str__(self) -> str:
        weights = {name: getattr(self, name) for name in NAMES if getattr(self, name)}
        if len(weights) == 1:
            return next(iter(weights))
        return PLUS.join(f"{weight:.12g} {name}" for name, weight in weights.items())

    def check(self, fleet: Fleet) -> None:
        """Refuse what a fleet does not tell.

        Raises:
            DataError: Grams or money are asked for where a member has no rate.
        """
        for name in ("carbon", "price"):
            unknown = [each.name for each in fleet if getattr(each, name) is None]
            if getattr(self, name) and unknown:
                raise DataError(
                    f"{', '.join(unknown)} has no {name} of a kilowatt-hour: give it, or plan by"
                    " energy"
                )
        units = {each.price.unit for each in fleet if each.price is not None}
        if self.price and len(units) > 1:
            raise DataError(f"prices in {' and '.join(sorted(units))} cannot be compared")

    def hourly(self, member: Member) -> bool:
        """Whether it matters when a job runs there."""
        return any(
            weight and rate is not None and rate.hours is not None
            for weight, rate in ((self.carbon, member.carbon), (self.price, member.price))
        )

    def per_joule(self, member: Member, begin_s: float, end_s: float) -> float:
        """What a joule comes to there, between two moments in seconds since 1970."""
        cost = self.energy
        for weight, rate in ((self.carbon, member.carbon), (self.price, member.price)):
            if weight and rate is not None:
                cost += weight * rate.during(begin_s, end_s).of(1.0)
        return cost

    def least_per_joule(self, member: Member) -> float:
        """What a joule comes to there in the best of all hours."""
        cost = self.energy
        for weight, rate in ((self.carbon, member.carbon), (self.price, member.price)):
            if weight and rate is not None:
                values = [rate.per_kwh] if rate.hours is None else [*rate.hours.values]
                cost += weight * min(values) / J_PER_KWH
        return cost


def _weights(text: str) -> dict[str, float]:
    """One name, or a mix as it is printed."""
    weights: dict[str, float] = {}
    for part in text.split(PLUS):
        said, _, name = part.rpartition(" ")
        try:
            weights[name] = float(said) if said else 1.0
        except ValueError:
            return {text: 1.0}
    return weights
