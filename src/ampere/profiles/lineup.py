"""Lineup: estimates of several models from one profile, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ampere.core import units
from ampere.core.page import Page
from ampere.core.shown.letters import shortened
from ampere.core.types import Json
from ampere.profiles.estimate import Estimate

NAME = 30  # letters of a model, so that the table has at most 80 columns


@dataclass(frozen=True)
class Lineup:
    """Models by the names that they were asked about, and what each will cost, or why nobody knows.

    All are of the same job on the same device.
    """

    estimates: tuple[tuple[str, Estimate], ...]
    failures: tuple[tuple[str, str], ...] = ()

    def to_json(self, asked: tuple[str, ...]) -> list[Json]:
        """An object for each model, in the order in which they were asked about."""
        known = {name: estimate.to_json() for name, estimate in self.estimates}
        failed = dict(self.failures)
        return [
            {"model": name, **known[name]}
            if name in known
            else {"model": name, "error": failed[name]}
            for name in asked
        ]

    @property
    def warnings(self) -> list[str]:
        """What is to be known: once, where it holds for all of them, else with the model's name."""
        every = [set(estimate.warnings) for _, estimate in self.estimates]
        common = set.intersection(*every) if every else set()
        shared = [text for text in self.estimates[0][1].warnings if text in common] if every else []
        own = [
            f"{name}: {text}"
            for name, estimate in self.estimates
            for text in estimate.warnings
            if text not in common
        ]
        return [*shared, *own]

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        estimates = [estimate for _, estimate in self.estimates]
        energies = [estimate.energy_j for estimate in estimates]
        n = len(estimates)
        ends = [end for each in estimates if _is_told(each) for end in each.energy_j_interval]
        unit, texts = units.same_unit([*energies, *ends], "J")
        wh_unit, hours = units.same_unit([energy / 3600 for energy in energies], "Wh")
        seconds = [math.nan if each.time_s is None else each.time_s for each in estimates]
        s_unit, times = units.same_time(seconds)
        limits = zip(texts[n::2], texts[n + 1 :: 2], strict=True)
        intervals = [
            " – ".join(next(limits) if _is_told(each) else _with_units(each)) for each in estimates
        ]
        names = [shortened(name, NAME) for name, _ in self.estimates]
        first = estimates[0]
        shares = [_share(each, first) for each in estimates]
        return Page(
            f"{units.plural(n, 'model')}, {units.plural(first.steps, 'training step')} each",
            headers=("model", unit, "90 % interval", wh_unit, s_unit, "of first"),
            rows=list(zip(names, texts[:n], intervals, hours, times, shares, strict=True)),
            align="<>>>>>",
            facts=[
                *first.origin_facts(),
                ("not in it", ", ".join(first.left_out())),
                *self._rated(),
                *(("warning", text) for text in self.warnings),
            ],
        )

    def _rated(self) -> list[tuple[str, str]]:
        """What each borrows, takes of a battery, emits and costs, as far as it was asked for."""
        facts = []
        for name, estimate in self.estimates:
            if estimate.lent:
                share = units.percent(math.fsum(estimate.lent.values()))
                facts.append(("borrowed", f"{name}: {share} from other devices"))
            if estimate.battery_wh is not None:
                share = units.percent(estimate.battery_share)
                facts.append(("battery", f"{name}: {share} of {estimate.battery_wh:g} Wh"))
            for title, rate in (("carbon", estimate.carbon), ("cost", estimate.price)):
                if rate is not None:
                    text = f"{rate.text(rate.of(estimate.energy_j))} at {rate}"
                    facts.append((title, f"{name}: {text}"))
        return sorted(facts, key=lambda fact: fact[0])


def _is_told(estimate: Estimate) -> bool:
    """Its interval says something: one that does not shall not choose the unit of all others."""
    return estimate.energy_j_std <= estimate.energy_j


def _with_units(estimate: Estimate) -> Iterable[str]:
    return map(units.joules, estimate.energy_j_interval)


def _share(estimate: Estimate, first: Estimate) -> str:
    """What it takes of the first; totals that lack layers are not to be compared."""
    if estimate.uncovered:
        return "in part"
    return units.UNKNOWN if first.uncovered else units.percent(estimate.energy_j / first.energy_j)
