"""Budget: what training may take, as a user writes it, and the joules that it comes to.

50%                    a share of what the full model takes
2J/step  1.5 mJ/step   energy of a step
800J  2.5kJ  5 Wh      energy of a whole job
30% battery            of a full battery
0.5kgCO2e  1EUR  $1    what a job may emit or cost: by the rates of a kilowatt-hour
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from ampere.core.rates import CO2, CURRENCIES, NUMBER, Rate, parse_currency
from ampere.errors import DataError

FORMS = (
    "write a share of the full model such as 50%, joules of a step such as 2J/step or 1.5 mJ/step,"
    " energy of a whole job such as 800J, 2.5kJ or 5 Wh, or what a job may take of a battery, emit"
    " or cost: 30% battery, 0.5kgCO2e, 1EUR"
)
JOULES = {
    "µJ": 1e-6,
    "mJ": 1e-3,
    "J": 1.0,
    "kJ": 1e3,
    "MJ": 1e6,
    "mWh": 3.6,
    "Wh": 3600.0,
    "kWh": 3.6e6,
}
GRAMS = {"gCO2e": 1.0, "kgCO2e": 1e3, "tCO2e": 1e6}
SHARE, BATTERY, STEP = "%", "% battery", "/step"
UNITS = (SHARE, BATTERY, *JOULES, *(unit + STEP for unit in JOULES), *GRAMS, *CURRENCIES)

# The case of a prefix counts: mJ and MJ are a factor of a thousand million apart.
_PATTERN = re.compile(
    rf"(?P<amount>{NUMBER})\s*"
    r"(?P<unit>%|(?P<prefix>[uµμmkM]?)(?P<base>[jJ]|[wW][hH])\s*(?P<step>/\s*(?i:step))?)",
    re.ASCII,
)
_BATTERY = re.compile(rf"({NUMBER})\s*%\s*(?:of\s+)?(?:the\s+)?battery", re.ASCII | re.IGNORECASE)
_CARBON = re.compile(rf"({NUMBER})\s*(g|kg|t)\s*{CO2}", re.ASCII | re.IGNORECASE)
_MONEY = re.compile(rf"([$€£]?)\s*({NUMBER})\s*([A-Za-z]{{3}}|[$€£])?", re.ASCII)


@dataclass(frozen=True)
class Budget:
    """An amount of one of `UNITS`."""

    amount: float
    unit: str
    said: str = field(default="", compare=False)  # how it was written, where it was converted

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise DataError(f"unknown unit {self.unit!r} of a budget: {FORMS}")
        if not (0 < self._scaled < math.inf):
            raise DataError(f"a budget of {self} leaves room for nothing: {FORMS}")
        if self.unit == BATTERY and self.amount > 100:
            raise DataError(f"a budget of {self} is more than a full battery has: {FORMS}")

    def __str__(self) -> str:
        gap = "" if self.unit in (SHARE, BATTERY) else " "
        return self.said or f"{str(self.amount).removesuffix('.0')}{gap}{self.unit}"

    @property
    def is_share(self) -> bool:
        """Whether it is a share of what the full model takes."""
        return self.unit == SHARE

    @property
    def is_energy(self) -> bool:
        """Whether it is energy itself, of a step or of a job."""
        return self.unit.removesuffix(STEP) in JOULES

    def settled(
        self,
        *,
        battery_j: float | None = None,
        carbon: Rate | None = None,
        price: Rate | None = None,
    ) -> Budget:
        """The same in joules, if it is of a battery, of carbon or of money; else as it is.

        Args:
            battery_j: What the full battery holds.
            carbon: Grams of CO2e a kilowatt-hour.
            price: What a kilowatt-hour costs.

        Raises:
            DataError: What it takes to convert it is not given, or is of another currency.
        """
        if self.is_share or self.is_energy:
            return self
        if self.unit == BATTERY:
            if battery_j is None:
                raise self._needs("what the battery holds", "--battery-wh 50")
            joules = self._scaled * battery_j
        elif self.unit in GRAMS:
            if carbon is None:
                raise self._needs("what a kilowatt-hour emits", "--carbon FR")
            joules = carbon.joules(self._scaled)
        else:
            if price is None:
                raise self._needs("what a kilowatt-hour costs", f"--price 0.30{self.unit}/kWh")
            if price.unit != self.unit:
                raise DataError(
                    f"the budget is in {self.unit}, the price in {price.unit}:"
                    " write both in the same currency"
                )
            joules = price.joules(self._scaled)
        return Budget(joules, "J", said=str(self))

    def joules(
        self,
        *,
        full_j: float | None = None,
        steps: int | None = None,
        battery_j: float | None = None,
        carbon: Rate | None = None,
        price: Rate | None = None,
    ) -> float:
        """Joules that a whole job may take.

        Args:
            full_j: What the whole job of the full model takes; only a share needs it.
            steps: Of the job; only a budget of a step needs them.
            battery_j: As `settled` takes it, and what follows.
            carbon: Grams of CO2e a kilowatt-hour.
            price: What a kilowatt-hour costs.

        Raises:
            DataError: What is needed is not given; one line says what.
        """
        if self.is_share:
            if full_j is None:
                raise self._needs("what the full model takes", "a model and --profile FILE")
            return self._scaled * full_j
        budget = self.settled(battery_j=battery_j, carbon=carbon, price=price)
        return budget._scaled * (self._length(steps) if self.unit.endswith(STEP) else 1)

    def per_step(self, full_j: float, steps: int | None = None) -> float:
        """Joules that a step may take, where one of the full model takes `full_j`.

        Args:
            full_j: Joules of a step of the full model.
            steps: Steps of the whole job; only a budget for a job needs them.
        """
        if self.is_share:
            return self._scaled * full_j
        if self.unit.endswith(STEP):
            return self._scaled
        return self.joules() / self._length(steps)

    @property
    def _scaled(self) -> float:
        """As joules, as a share of 1, as grams, or as money."""
        if self.unit in (SHARE, BATTERY):
            return self.amount / 100
        unit = self.unit.removesuffix(STEP)
        return self.amount * {**JOULES, **GRAMS}.get(unit, 1.0)

    def _length(self, steps: int | None) -> int:
        if steps is None:
            of = "a step" if self.unit.endswith(STEP) else "a whole job"
            raise DataError(
                f"the budget of {self} is for {of}: give the job's length"
                " (--steps, or --epochs with --samples)"
            )
        if steps < 1:
            raise DataError(f"a job of {steps} steps has no budget: give 1 or more")
        return steps

    def _needs(self, what: str, option: str) -> DataError:
        return DataError(
            f"a budget of {self} needs to know {what}: give {option}, or write joules such as 5 Wh"
        )


def parse_budget(text: str) -> Budget:
    """Read a budget in any of its forms; spaces do not matter."""
    typed = text.strip()
    if match := _PATTERN.fullmatch(typed):
        if match["unit"] == SHARE:
            return Budget(float(match["amount"]), SHARE)
        prefix = "µ" if match["prefix"] in ("u", "μ") else match["prefix"]
        base = "J" if match["base"] in "jJ" else "Wh"
        return Budget(float(match["amount"]), f"{prefix}{base}{STEP if match['step'] else ''}")
    if match := _BATTERY.fullmatch(typed):
        return Budget(float(match[1]), BATTERY)
    if match := _CARBON.fullmatch(typed):
        return Budget(float(match[1]), f"{match[2].lower()}CO2e")
    if match := _MONEY.fullmatch(typed):
        before, amount, after = match.groups()
        currency = parse_currency(before or after or "")
        if currency is not None and not (before and after):
            return Budget(float(amount), currency)
    raise DataError(f"{text!r} is no budget: {FORMS}")
