"""Judge: how a run stands to its budget, and when to look again."""

from __future__ import annotations

from dataclasses import dataclass

from ampere.core.rates import J_PER_KWH
from ampere.gates.forecast import LAP_S, Forecast
from ampere.gates.ledger import Ledger
from ampere.gates.story import Start, Status, Verdict
from ampere.gates.terms import Terms
from ampere.records.measurement import utc_now

TAIL = 0.05  # on either side of a 90 % interval
NEAR = 4.0  # looks, at least, before the budget is spent


@dataclass(frozen=True)
class Judge:
    """Compares a ledger with the terms."""

    terms: Terms
    ledger: Ledger

    def room_j(self) -> float:
        """What may still be spent on steps: a checkpoint, and what the meter hides, left aside."""
        ledger = self.ledger
        budget_j = float("inf") if self.terms.budget_j is None else self.terms.budget_j
        return budget_j - ledger.spent_j - ledger.doubt_j - ledger.reserve_j

    def must_stop(self, steps_left: int | None, ahead_s: float | None = None) -> bool:
        """Whether what comes next could exceed the budget: a step, or so many seconds.

        After the last step nothing comes.
        """
        if self.terms.budget_j is None:
            return False
        if ahead_s is not None:
            return self.room_j() < ahead_s * (self.ledger.power_w or 0.0)
        return steps_left != 0 and self.room_j() < self.ledger.next_j()

    def verdict(self, rest: Forecast | None) -> Verdict:
        """How it will end, with what is still to come."""
        if self.ledger.failing:
            return Verdict.UNGATED
        if self.terms.budget_j is None:
            return Verdict.FREE
        if rest is None:
            return Verdict.INSIDE
        inside = rest.probability_within(self.terms.budget_j - self.ledger.spent_j)
        if inside >= self.terms.confidence:
            return Verdict.INSIDE
        return Verdict.RISK if inside > 1 - self.terms.confidence else Verdict.OVER

    def stops_at(self, total_steps: int | None) -> int | None:
        """The step at which the budget will be spent; None if the run ends before."""
        step_j = self.ledger.step_j()
        if self.terms.budget_j is None or not step_j:
            return None
        step = self.ledger.step_count + max(0, int(self.room_j() / step_j))
        return step if total_steps is None or step < total_steps else None

    def status(self, first: Start, total_steps: int | None, exceeded: bool) -> Status:
        """How the run stands: spent, forecast, verdict, and the step that its budget lasts to."""
        ledger, spent_j = self.ledger, self.ledger.spent_j
        left = None if total_steps is None else max(0, total_steps - ledger.step_count)
        rest = None if left is None else ledger.rest(left)
        reach = None if rest is None else (rest.quantile(TAIL), rest.quantile(1 - TAIL))
        return Status(
            time=utc_now(),
            step=ledger.step_count,
            spent_j=spent_j,
            provenance=first.provenance,
            verdict=Verdict.STOP if exceeded else self.verdict(rest),
            elapsed_s=ledger.elapsed_s,
            steps=total_steps,
            power_w=ledger.power_w,
            forecast_j=None if rest is None else spent_j + rest.energy_j,
            forecast_j_interval=None if reach is None else (spent_j + reach[0], spent_j + reach[1]),
            budget_j=self.terms.budget_j,
            stops_at=None if exceeded else self.stops_at(total_steps),
            overhead=ledger.forecaster.overhead(),
            spent_gco2e=_per_kwh(spent_j, first.carbon_g_per_kwh),
            spent_cost=_per_kwh(spent_j, first.price_per_kwh),
        )

    def next_look_s(self) -> float:
        """Seconds until the meter should be read again: a lap, or less where the budget is near."""
        power_w = self.ledger.power_w
        if self.terms.budget_j is None or not power_w:
            return LAP_S
        left_s = (self.room_j() - self.ledger.next_j() - self.ledger.interlude_j()) / power_w
        return max(0.0, min(LAP_S, left_s / NEAR))


def _per_kwh(energy_j: float, rate: float | None) -> float | None:
    return None if rate is None else energy_j / J_PER_KWH * rate
