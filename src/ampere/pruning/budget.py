"""Budget: how much energy training may take, as a user writes it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ampere.errors import DataError

FORMS = (
    "write a share of the full model such as 50%, joules of a step such as 2J/step or 1.5 mJ/step,"
    " or energy of a whole job such as 800J, 2.5kJ or 5 Wh"
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
SHARE, STEP = "%", "/step"
UNITS = (SHARE, *JOULES, *(unit + STEP for unit in JOULES))

# The case of a prefix counts: mJ and MJ are a factor of a thousand million apart.
_PATTERN = re.compile(
    r"(?P<amount>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
    r"(?P<unit>%|(?P<prefix>[uµμmkM]?)(?P<base>[jJ]|[wW][hH])\s*(?P<step>/\s*(?i:step))?)",
    re.ASCII,
)


@dataclass(frozen=True)
class Budget:
    """An amount of one of `UNITS`: a share of the full model, joules of a step, or of a job."""

    amount: float
    unit: str

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise DataError(f"unknown unit {self.unit!r} of a budget: {FORMS}")
        if not (0 < self._scaled < math.inf):
            raise DataError(f"a budget of {self} is nothing to search for: {FORMS}")

    def __str__(self) -> str:
        gap = "" if self.is_share else " "
        return f"{str(self.amount).removesuffix('.0')}{gap}{self.unit}"

    @property
    def is_share(self) -> bool:
        """Whether it is a share of what the full model takes."""
        return self.unit == SHARE

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
        if steps is None:
            raise DataError(
                f"the budget of {self} is for a whole job: give its length"
                " (--steps, or --epochs with --samples)"
            )
        if steps < 1:
            raise DataError(f"a job of {steps} steps has no budget: give 1 or more")
        return self._scaled / steps

    @property
    def _scaled(self) -> float:
        """As joules, or as a share of 1."""
        if self.is_share:
            return self.amount / 100
        return self.amount * JOULES[self.unit.removesuffix(STEP)]


def parse_budget(text: str) -> Budget:
    """Read `50%`, `1.5 mJ/step`, `800J` or `5 Wh`; spaces do not matter."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise DataError(f"{text!r} is no budget: {FORMS}")
    if match["unit"] == SHARE:
        return Budget(float(match["amount"]), SHARE)
    prefix = "µ" if match["prefix"] in ("u", "μ") else match["prefix"]
    base = "J" if match["base"] in "jJ" else "Wh"
    return Budget(float(match["amount"]), f"{prefix}{base}{STEP if match['step'] else ''}")
