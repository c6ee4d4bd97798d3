"""Lenders: a device that is three times another one is known by a few rows."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from ampere.core.layers import Layer
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.fitting import fit_additive
from ampere.estimators.lending.lenders import Lender, Lenders
from ampere.estimators.lending.unmeasured import UnmeasuredFit
from ampere.estimators.methods import fit_rows
from ampere.estimators.solution import rebuild, solution_of
from ampere.records.measurement import Measurement
from priced_rows import Price, conv, linear, measured, members, network, pool, price

ASKED = members(12, seed=77)


def slope(layer: Layer, height: float) -> float:
    """What wide layers cost more by; no roofline knows it."""
    return math.prod(1 + height / (1 + (30 / width) ** 3) for width in layer.widths.values())


def old(layer: Layer) -> float:
    """A device on which wide layers are dear."""
    return price(layer) * slope(layer, 0.8)


def fast(layer: Layer) -> float:
    """Another one, on which they are not as dear."""
    return price(layer) * slope(layer, 0.2)


def new(layer: Layer) -> float:
    """As the old one, and a little dearer where many bytes are."""
    (_, activations, _) = layer.features.numbers
    return old(layer) * (1 + 0.03 * math.log10((activations or 0.0) + 10))


def wavy(layer: Layer) -> float:
    """As the old one, and with ups and downs of its own."""
    return old(layer) * math.prod(1 + 0.3 * math.sin(width / 9) for width in layer.widths.values())


def backwards(layer: Layer) -> float:
    """What nothing is like: the larger the cheaper."""
    return 1e-3 / price(layer)


FACTORS = {old: 1.0, fast: 0.3, new: 3.0, wavy: 2.0, backwards: 1.0, price: 1.0}


def row_of(device: Price, layers: Sequence[Layer]) -> Measurement:
    return measured(layers, FACTORS[device], device)


def rows_of(device: Price, n: int, seed: int) -> list[Measurement]:
    return [row_of(device, layers) for layers in members(n, seed)]


def mean_error(fit: AdditiveFit, device: Price) -> float:
    return fmean(
        abs(fit.predict(layers).total.energy_j / row_of(device, layers).energy_j - 1)
        for layers in ASKED
    )


@pytest.fixture(scope="module")
def lenders() -> Lenders:
    return Lenders(
        (
            Lender("old", fit_additive(rows_of(old, 40, 1))),
            Lender("fast", fit_additive(rows_of(fast, 40, 2))),
        )
    )


@pytest.fixture(scope="module")
def against() -> Lenders:
    return Lenders((Lender("odd", fit_additive(rows_of(backwards, 30, 1))),))


def test_a_few_rows_and_others_tell_more_than_many_alone(lenders: Lenders) -> None:
    few, many = rows_of(new, 4, 5), rows_of(new, 4, 5) + rows_of(new, 8, 6)
    with_others = fit_additive(few, lenders=lenders)
    assert not with_others.refused
    error = mean_error(with_others, new)
    assert error < 0.05
    assert error < mean_error(fit_additive(few), new) / 2
    assert error < mean_error(fit_additive(many), new)


def test_it_says_from_whom_it_borrows(lenders: Lenders) -> None:
    fit = fit_additive(rows_of(new, 6, 5), lenders=lenders)
    lent = fit.predict(ASKED[0]).lent
    assert set(lent) == {"old", "fast"}
    assert lent["old"] > 2 * lent["fast"] >= 0
    assert 0 < sum(lent.values()) <= 1
    assert fit_additive(rows_of(new, 6, 5)).predict(ASKED[0]).lent == {}


def test_what_is_borrowed_fades_as_own_rows_come(lenders: Lenders) -> None:
    shares = [
        sum(fit_additive(rows_of(wavy, n, 9), lenders=lenders).predict(ASKED[0]).lent.values())
        for n in (2, 40)
    ]
    assert shares[1] < shares[0] - 0.2


def test_others_that_contradict_the_rows_are_left_out(against: Lenders) -> None:
    rows = rows_of(new, 12, 5)
    fit, alone = fit_additive(rows, lenders=against), fit_additive(rows)
    assert fit.refused == ("odd",)
    assert "nothing is borrowed from odd: the rows here are likelier without" in fit.notes
    assert [fit.predict(each).total for each in ASKED] == [
        alone.predict(each).total for each in ASKED
    ]


@pytest.mark.parametrize("n", [6, 20])
def test_it_is_hardly_worse_than_alone(lenders: Lenders, n: int) -> None:
    """Whatever the new device is like: here as the roofline has it, without a cliff."""
    rows = rows_of(price, n, 4)
    alone = mean_error(fit_additive(rows), price)
    assert mean_error(fit_additive(rows, lenders=lenders), price) < max(0.02, 1.05 * alone)


def test_the_order_of_lenders_and_rows_does_not_matter(lenders: Lenders) -> None:
    rows = rows_of(new, 6, 5)
    shuffled = random.Random(0).sample(rows, len(rows))
    fit = fit_additive(rows, lenders=lenders)
    again = fit_additive(shuffled, lenders=Lenders(lenders.each[::-1]))
    for layers in ASKED[:3]:
        said, before = (each.predict(layers).total for each in (again, fit))
        assert said.energy_j == pytest.approx(before.energy_j, rel=1e-6)
        assert said.energy_j_std == pytest.approx(before.energy_j_std, rel=1e-4)
    assert Lenders(lenders.each[::-1]).key == lenders.key


def test_levels_are_those_of_the_devices(lenders: Lenders) -> None:
    level = dict(zip(lenders.names, lenders.levels, strict=True))
    assert sum(level.values()) == pytest.approx(0.0, abs=1e-9)
    assert 3 < math.exp(level["old"] - level["fast"]) < 6


def test_kinds_that_only_others_have_are_covered() -> None:
    """The pools of the new device were never measured there."""
    with_pools = [
        (*layers[:-1], pool(20 + i), layers[-1]) for i, layers in enumerate(members(30, 1))
    ]
    lender = Lender("old", fit_additive([row_of(old, each) for each in with_pools]))
    asked = (*network(20, 30, 20)[:-1], pool(30), linear(20))
    fit = fit_additive(rows_of(new, 6, 5), lenders=Lenders((lender,)))
    said = fit.predict(asked)
    assert not said.uncovered
    assert not any(line.borrowed for line in said.lines)
    assert said.total.energy_j == pytest.approx(row_of(new, asked).energy_j, rel=0.15)


def test_what_nobody_knows_is_the_device_s_own_business(lenders: Lenders) -> None:
    """A kind that only the new device has is described by what it does, as ever."""
    rows = [row_of(new, (*each[:-1], pool(30), each[-1])) for each in members(8, 3)]
    fit = fit_additive(rows, lenders=lenders)
    asked = (*network(20, 30, 20)[:-1], pool(30), linear(20))
    assert fit.predict(asked).total.energy_j == pytest.approx(row_of(new, asked).energy_j, rel=0.2)


def test_one_more_row_is_told_without_a_search(lenders: Lenders) -> None:
    rows = rows_of(new, 6, 5)
    fit = fit_additive(rows, lenders=lenders).tell(row_of(new, ASKED[0]))
    assert fit.encoder.lenders is lenders
    said, true = fit.predict(ASKED[0]).total, row_of(new, ASKED[0])
    assert said.energy_j == pytest.approx(true.energy_j, rel=0.05)


def test_a_solution_is_rebuilt_with_the_same_lenders(lenders: Lenders, against: Lenders) -> None:
    rows = rows_of(new, 10, 5)
    for others in (lenders, against):
        fit = fit_additive(rows, lenders=others)
        again = rebuild(solution_of(fit, rows), rows, "additive", "", others)
        assert isinstance(again, AdditiveFit)
        assert again.refused == fit.refused
        assert again.predict(ASKED[0]) == fit.predict(ASKED[0])


def test_the_paper_s_method_borrows_nothing(lenders: Lenders) -> None:
    with pytest.raises(DataError, match="only the additive method learns from other devices"):
        fit_rows(rows_of(new, 6, 5), "paper", "matern52", lenders=lenders)


def inside(fit: UnmeasuredFit, layers: Sequence[Layer], truth_j: float) -> bool:
    total = fit.predict(layers).total
    reach = 1.645 * total.energy_j_std / total.energy_j
    return abs(math.log(truth_j / total.energy_j)) <= reach


def test_a_device_without_rows_has_an_interval_as_wide_as_devices_are_apart(
    lenders: Lenders,
) -> None:
    fit = UnmeasuredFit(lenders)
    for layers, device in itertools.product(ASKED[:4], (old, fast, new, price)):
        assert inside(fit, layers, row_of(device, layers).energy_j)
    said = fit.predict(ASKED[0])
    between = sorted(row_of(device, ASKED[0]).energy_j for device in (old, fast))
    assert between[0] < said.total.energy_j < between[1]
    assert sum(said.lent.values()) == pytest.approx(1.0)
    assert said.total.energy_j_std > 0.5 * said.total.energy_j
    assert sum(line.cost.energy_j for line in said.lines) == pytest.approx(said.total.energy_j)


def test_one_lender_alone_leaves_more_open_than_many() -> None:
    fits = [fit_additive(rows_of(old, 12, seed)) for seed in (1, 2, 3)]
    alike = [
        UnmeasuredFit(Lenders(tuple(Lender(str(i), f) for i, f in enumerate(fits[:n]))))
        for n in (1, 3)
    ]
    one, three = (fit.predict(ASKED[0]).total.energy_j_std for fit in alike)
    assert one > 1.5 * three


def test_layers_of_a_count_cost_as_often(lenders: Lenders) -> None:
    once, twice = (conv(20, 20, count=n) for n in (1, 2))
    fit = UnmeasuredFit(lenders)
    lines = [fit.predict((layer,)).lines[0].cost.energy_j for layer in (once, twice)]
    assert lines[1] == pytest.approx(2 * lines[0])


def test_a_stranger_is_not_covered(lenders: Lenders) -> None:
    strange = replace(linear(3), kind=replace(linear(3).kind, name="x", operation="magic"))
    said = UnmeasuredFit(lenders).predict((strange,))
    assert said.uncovered == (strange,) and math.isnan(said.total.energy_j)


def test_a_call_that_a_layer_makes_often_costs_as_often(lenders: Lenders) -> None:
    """As calls of a recurrent layer do, once for each step of its sequence."""
    fit, layers = UnmeasuredFit(lenders), ASKED[0]
    often = tuple(replace(layer, part=50.0) for layer in layers)
    once, many = (fit.predict(each) for each in (layers, often))
    for one, other in zip(once.lines[:-1], many.lines[:-1], strict=True):
        assert other.cost.energy_j == pytest.approx(50 * one.cost.energy_j)


def test_what_neither_they_nor_own_rows_know_is_not_covered(lenders: Lenders) -> None:
    """All known layers are lent, so there are no coefficients for the stranger's own features."""
    fit = fit_additive(rows_of(new, 6, 5), lenders=lenders)
    stranger = pool(20)
    said = fit.predict((*ASKED[0], stranger))
    assert said.uncovered == (stranger,)
    assert math.isfinite(said.total.energy_j)
