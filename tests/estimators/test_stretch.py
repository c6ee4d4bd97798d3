"""Intervals are as wide as rows that are left out show that they must be."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from ampere.core.layers import Layer
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Cost, Prediction
from ampere.estimators.fitting import fit_additive
from ampere.estimators.intervals import inflation, interval
from ampere.estimators.methods import fit_rows
from ampere.estimators.solution import rebuild, solution_of
from ampere.estimators.stretch import BELIEVED, PARTS, TOLD, stretch_of
from ampere.records.measurement import Measurement
from plain_rows import layer, step
from priced_rows import ROWS, joules, members, noisy, price

ROUGH = 0.7  # of the logarithm of what a layer costs


@dataclass
class Known:
    """Says that every network takes 1 J, and by how much that may be off."""

    std: float
    asked: list[Sequence[Measurement]] = field(default_factory=list)
    method: str = "known"

    def fit(self, rows: Sequence[Measurement]) -> Known:
        self.asked.append(rows)
        return self

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        return Prediction((), Cost(1.0, self.std))


def off_by(*logarithms: float) -> list[Measurement]:
    return [step((layer(f"l{i}", flops=1.0),), math.exp(x)) for i, x in enumerate(logarithms)]


def rough(each: Layer) -> float:
    """A price without any pattern: each layer is as dear as it happens to be."""
    return price(each) * math.exp(random.Random(repr(each.identity)).gauss(0, ROUGH))


def rough_fit(seed: int, rows: int = 12) -> AdditiveFit:
    asked = members(rows, seed)
    told = [Measurement(layers, joules(layers, rough), 0.2 * joules(layers)) for layers in asked]
    return fit_additive(told)


def widened_fit() -> AdditiveFit:
    return next(found for found in map(rough_fit, range(9)) if found.energy.solution.stretch > 1.2)


def test_as_wide_as_what_was_left_out_is_far_off() -> None:
    rows = off_by(*[0.3, -0.3] * 10)
    assert stretch_of(rows, Known(0.1).fit) == pytest.approx(math.sqrt((BELIEVED + 20 * 9) / 30))


def test_never_narrower_than_what_is_told() -> None:
    assert stretch_of(off_by(*[0.01] * 20), Known(0.1).fit) == 1.0


def test_no_row_counts_as_more_than_a_contradiction() -> None:
    rows = off_by(*[0.0] * 9, 50.0)
    assert stretch_of(rows, Known(0.1).fit) == pytest.approx(math.sqrt((BELIEVED + 4.5**2) / 20))


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_too_few_rows_show_nothing(rows: int) -> None:
    known = Known(0.1)
    assert stretch_of(off_by(*[9.0] * rows), known.fit) == 1.0
    assert known.asked == []


def test_each_row_is_left_out_once() -> None:
    rows, known = off_by(*[0.0] * 11), Known(0.1)
    stretch_of(rows, known.fit)
    assert len(known.asked) == PARTS
    left_out = [row for told in known.asked for row in rows if row not in told]
    assert sorted(map(repr, left_out)) == sorted(map(repr, rows))


@pytest.mark.parametrize(("rows", "refits"), [(40, 5), (80, 3), (200, 1), (1000, 1)])
def test_of_many_rows_enough_are_left_out(rows: int, refits: int) -> None:
    known = Known(0.1)
    stretch_of(off_by(*[0.0] * rows), known.fit)
    assert len(known.asked) == refits
    assert min(rows, 200) - len(known.asked[0]) == min(rows, 200) // PARTS
    assert refits * min(rows, 200) // PARTS >= TOLD or refits == PARTS


def test_what_cannot_be_foretold_is_not_counted() -> None:
    """A row of an operation that no other has says nothing of what is known."""
    rows = [*ROWS, step((layer("strange", flops=1e6),), 1e3)]
    assert fit_additive(rows).energy.solution.stretch < 1.1


def test_where_layers_add_up_intervals_stay_as_they_are() -> None:
    for seed in range(3):
        fit = fit_additive(noisy(members(20, seed), seed))
        assert fit.energy.solution.stretch == pytest.approx(1.0, abs=0.12)


def test_more_hold_where_nothing_has_a_pattern() -> None:
    """From twelve rows a fit thinks that it knows such a device far better than it does."""
    told, believed = 0, 0
    for seed in range(10):
        fit = rough_fit(seed)
        for layers in members(20, 100 + seed):
            said, truth = fit.predict(layers).total, joules(layers, rough)
            low, high = interval(said.energy_j, said.energy_j_std)
            told += low <= truth <= high
            low, high = interval(said.energy_j, said.energy_j_std / fit.energy.solution.stretch)
            believed += low <= truth <= high
    assert believed < 0.7 * 200
    assert told > believed + 0.08 * 200


def test_it_is_in_every_deviation() -> None:
    fit = widened_fit()
    assert fit.time is not None
    stretch = fit.energy.solution.stretch
    assert fit.energy.widening == pytest.approx(stretch * inflation(12))
    assert fit.time.solution.stretch == stretch
    solution = replace(fit.energy.solution, stretch=1.0)
    plain = replace(fit, energy=replace(fit.energy, solution=solution), time=None)
    for layers in members(3, 5):
        said, before = fit.predict(layers), plain.predict(layers)
        assert said.total.energy_j == before.total.energy_j
        assert said.total.energy_j_std == pytest.approx(stretch * before.total.energy_j_std)
        assert said.lines[0].cost.energy_j_std == pytest.approx(
            stretch * before.lines[0].cost.energy_j_std
        )


def test_one_more_row_keeps_it() -> None:
    fit = widened_fit()
    layers = members(1, 77)[0]
    row = Measurement(layers, fit.predict(layers).total.energy_j)
    assert fit.tell(row).energy.solution.stretch == fit.energy.solution.stretch


def test_it_is_kept_with_what_was_found() -> None:
    fit = widened_fit()
    rows = fit.measurements
    kept = json.loads(json.dumps(solution_of(fit_rows(rows, "additive", "matern52"), rows)))
    again = rebuild(kept, rows, "additive", "matern52")
    layers = members(1, 3)[0]
    assert again.predict(layers) == fit.predict(layers)
