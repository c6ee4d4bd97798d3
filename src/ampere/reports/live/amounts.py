"""Amounts: the joules of one run, all in one unit, so that they can be compared by eye."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ampere.core import units
from ampere.reports.live.history import History

J_PER_WH = 3600.0
LEAST = 0.001  # what is less is told as less


@dataclass(frozen=True)
class Amounts:
    """A unit, such as `Wh` or `kJ`, and how many joules it is."""

    unit: str
    size_j: float

    @classmethod
    def of(cls, histories: Iterable[History]) -> Amounts:
        """In watt hours, or in joules if that is how a budget was written."""
        told = list(histories)
        return cls._for(told, max(map(_largest_j, told), default=0.0))

    @classmethod
    def spent(cls, histories: Iterable[History]) -> Amounts:
        """The same for a picture of what was spent, without budgets and forecasts."""
        told = list(histories)
        return cls._for(told, max((each.spent_j for each in told), default=0.0))

    @classmethod
    def _for(cls, histories: Iterable[History], largest_j: float) -> Amounts:
        if any(map(_is_in_joules, histories)):
            return cls(*units.prefix_of(largest_j, "J"))
        unit, size = units.prefix_of(largest_j / J_PER_WH, "Wh")
        return cls(unit, size * J_PER_WH)

    def number(self, energy_j: float) -> str:
        """Without its unit: `4.8`."""
        return short(energy_j / self.size_j)

    def text(self, energy_j: float) -> str:
        """With its unit: `4.8 Wh`."""
        return f"{self.number(energy_j)} {self.unit}"

    def interval(self, limits_j: tuple[float, float]) -> str:
        """Both limits: `4.5 to 5.1 Wh`."""
        low, high = limits_j
        return f"{self.number(low)} to {self.text(high)}"


def short(value: float, least: float = LEAST) -> str:
    """Three digits, and no zeros at the end: `4.8`, `125`, `0.0123`."""
    if 0 < value < least:
        return f"<{least:f}".rstrip("0")
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _is_in_joules(history: History) -> bool:
    budget = history.start.budget.strip() if history.start else ""
    return budget.endswith(("J", "J/step"))


def _largest_j(history: History) -> float:
    """By which a unit is chosen: the budget, which all else is compared with, if there is one."""
    if history.budget_j is not None:
        return history.budget_j
    status = history.status
    forecasts = (status.forecast_j, *(status.forecast_j_interval or ())) if status else ()
    return max(each or 0.0 for each in (history.spent_j, *forecasts))
