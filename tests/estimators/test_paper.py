"""Fitting by subtraction: known costs of layers come back out of the totals of networks."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Cost
from ampere.estimators.paper import PaperFit, fit_kind, fit_paper, isolated_points
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement
from fakes import FIRST, HIDDEN, LAST, exact, known_cost, plain_kind, plain_layer, plain_model

AXIS = [1, 12, 24, 40, 64]
OTHER = plain_kind(Role.HIDDEN, "conv")


def last(width: int) -> Layer:
    return plain_layer(LAST, in_=width)


def design() -> list[Measurement]:
    """The variants of one kind of each role, measured without error."""
    return [
        *(exact([last(width)]) for width in AXIS),
        *(exact(plain_model(width)) for width in AXIS),
        *(exact(plain_model(a, b)) for a in AXIS for b in AXIS),
    ]


def every_layer(widths: Sequence[int]) -> list[Layer]:
    return [
        *(last(width) for width in widths),
        *(plain_layer(FIRST, out=width) for width in widths),
        *(plain_layer(HIDDEN, in_=a, out=b) for a in widths for b in widths),
    ]


def network(a: int, b: int, *kinds: LayerKind) -> tuple[Layer, ...]:
    """FIRST, then these hidden kinds from a to b and back, and LAST."""
    hidden = []
    for kind in kinds:
        hidden.append(plain_layer(kind, in_=a, out=b))
        a, b = b, a
    return plain_layer(FIRST, out=hidden[0].widths["in"]), *hidden, last(a)


def noisy(row: Measurement, rng: random.Random) -> Measurement:
    factor = math.exp(rng.gauss(0, 0.03))
    return replace(row, energy_j_per_step=factor * row.energy_j_per_step, spread=0.1, repeats=9)


def assert_close(cost: Cost, layer: Layer, share: float = 0.01) -> None:
    """Joules and seconds are right within a share of the largest ones of this kind."""
    true, largest = known_cost(layer), known_cost(replace(layer, widths=largest_widths(layer)))
    assert abs(cost.energy_j - true.energy_j) < share * largest.energy_j
    assert abs(cost.time_s - true.time_s) < share * largest.time_s


def largest_widths(layer: Layer) -> Widths:
    return Widths(dict.fromkeys(layer.widths, AXIS[-1]))


@pytest.fixture(scope="module")
def fit() -> PaperFit:
    return fit_paper(design())


def test_known_costs_are_recovered_where_they_were_measured(fit: PaperFit) -> None:
    assert set(fit.processes) == {FIRST.name, HIDDEN.name, LAST.name}
    for layer in every_layer(AXIS):
        assert_close(fit.cost(layer), layer)


def test_and_in_between_within_what_it_says_itself(fit: PaperFit) -> None:
    for layer in every_layer([6, 30, 55]):
        cost, true = fit.cost(layer), known_cost(layer)
        assert_close(cost, layer, 0.02)
        assert abs(cost.energy_j - true.energy_j) < 4 * cost.energy_j_std
        assert abs(cost.time_s - true.time_s) < 4 * cost.time_s_std
        assert not fit.is_extrapolated(layer)


def test_beyond_the_profiled_widths_it_says_so_and_is_less_sure(fit: PaperFit) -> None:
    inside, outside = plain_layer(HIDDEN, in_=30, out=30), plain_layer(HIDDEN, in_=30, out=300)
    assert fit.is_extrapolated(outside)
    assert fit.cost(outside).energy_j_std > 10 * fit.cost(inside).energy_j_std


def test_points_are_what_subtraction_leaves(fit: PaperFit) -> None:
    """Equations 1 and 2."""
    row = exact(plain_model(12, 40))
    ((layer, cost),) = isolated_points(HIDDEN.name, [row], fit.processes)
    others = [fit.cost(row.layers[0]), fit.cost(row.layers[-1])]
    assert layer.widths == {"in": 12, "out": 40}
    assert cost.energy_j == pytest.approx(row.energy_j_per_step - sum(c.energy_j for c in others))
    assert cost.energy_j_std == pytest.approx(math.hypot(*(c.energy_j_std for c in others)))


def test_what_cannot_be_told_apart_stays_uncovered() -> None:
    together = [
        exact([*plain_model(width)[:-1], plain_layer(OTHER, in_=width, out=8), last(8)])
        for width in AXIS
    ]
    fit = fit_paper([*(exact([last(width)]) for width in AXIS), *together])
    assert set(fit.processes) == {LAST.name}
    with pytest.raises(NotCovered, match=f"{FIRST.name} was never profiled"):
        fit.cost(plain_layer(FIRST, out=8))


def test_one_kind_at_two_widths_in_one_row_is_no_point() -> None:
    rows = [exact([plain_layer(LAST, in_=8), plain_layer(LAST, in_=16)]), exact([last(8)])]
    points = isolated_points(LAST.name, rows, {})
    assert [layer.widths for layer, _ in points] == [{"in": 8}]


def test_other_names_of_widths_are_not_covered(fit: PaperFit) -> None:
    with pytest.raises(NotCovered, match="other widths"):
        fit.cost(Layer("x", HIDDEN, Widths({"width": 8})))


@pytest.mark.parametrize("repeated", [[3], [1, 1, 1], [2, 1]])
def test_layers_that_repeat_share_what_is_left(repeated: list[int]) -> None:
    rows = [
        exact([plain_layer(LAST, in_=width, count=count) for count in repeated]) for width in AXIS
    ]
    fit = fit_paper(rows)
    for width in AXIS:
        assert_close(fit.cost(last(width)), last(width))


def test_counts_of_what_is_subtracted() -> None:
    rows = [exact([last(width)]) for width in AXIS]
    rows += [exact([plain_layer(FIRST, out=w), plain_layer(LAST, 4, in_=w)]) for w in AXIS]
    first = plain_layer(FIRST, out=24)
    assert_close(fit_paper(rows).cost(first), first)


def test_rows_without_time_still_tell_joules(fit: PaperFit) -> None:
    untimed = fit_paper([replace(row, time_s_per_step=None) for row in design()])
    for layer in every_layer([12, 40]):
        cost = untimed.cost(layer)
        assert cost.energy_j == pytest.approx(fit.cost(layer).energy_j)
        assert cost.time_s is None
        assert cost.time_s_std is None


def test_failed_rows_and_other_stages_are_ignored(fit: PaperFit) -> None:
    clutter = [
        Measurement((last(24),), failed=Failure("out of memory")),
        Measurement((last(24),), 99.0, 99.0, stage="forward"),
        Measurement((plain_layer(OTHER, in_=1, out=1),), failed=Failure("it hung")),
    ]
    again = fit_paper([*clutter, *design()])
    assert set(again.processes) == set(fit.processes)
    assert again.cost(last(24)) == fit.cost(last(24))
    with pytest.raises(DataError, match="no measurement to fit"):
        fit_paper(clutter)
    with pytest.raises(DataError, match="no measurement to fit"):
        fit_paper([])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    corners = [(1, 1), (1, 64), (64, 1), (64, 64)]
    rows = [
        *(exact([last(width)]) for width in (1, 24, 64)),
        *(exact(plain_model(width)) for width in (1, 24, 64)),
        *(exact(plain_model(a, b)) for a, b in corners),
        *(exact(network(b, a, OTHER)) for a, b in corners),
        *(exact(network(a, b, HIDDEN, OTHER)) for a, b in [(1, 64), (24, 24)]),
    ]
    rows = [noisy(row, rng) for row in rows]
    one = fit_paper(rows)
    rng.shuffle(rows)
    two = fit_paper(rows)
    for layer in [*every_layer([6, 30]), plain_layer(OTHER, in_=6, out=30)]:
        mine, theirs = one.cost(layer), two.cost(layer)
        assert theirs.energy_j == pytest.approx(mine.energy_j, rel=1e-6)
        assert theirs.energy_j_std == pytest.approx(mine.energy_j_std, rel=1e-6)


def test_noise_widens_what_it_says() -> None:
    quiet, loud = (
        fit_paper([replace(row, spread=spread, repeats=4) for row in design()[:5]])
        for spread in (0.002, 0.2)
    )
    assert loud.cost(last(24)).energy_j_std > 3 * quiet.cost(last(24)).energy_j_std
    assert quiet.noise < 0.03
    assert loud.noise >= 0.1  # the standard error of the mean of four


def test_totals_that_scatter_around_the_fit_are_noise_too() -> None:
    rows = [exact([last(width)]) for width in AXIS]
    scattered = [
        replace(row, energy_j_per_step=factor * row.energy_j_per_step)
        for row in rows
        for factor in (0.95, 1.05)
    ]
    assert fit_paper(rows).noise < 0.03
    assert 0.03 < fit_paper(scattered).noise < 0.12


def test_a_kind_without_widths_is_a_constant() -> None:
    kind = LayerKind("fixed", Role.LAST, "linear")
    layer = Layer("fixed", kind, Widths())
    process = fit_kind(
        "fixed", [(layer, Cost(2.0, 0.0, 1.0, 0.0)), (layer, Cost(4.0, 0.0, 3.0, 0.0))]
    )
    assert process.predict({}).energy_j == pytest.approx(3.0, rel=1e-3)
    assert process.predict({}).time_s == pytest.approx(2.0, rel=1e-3)
    assert not process.is_outside({})


def test_one_point_is_enough_to_answer_and_not_to_be_sure() -> None:
    fit = fit_paper([exact([last(24)])])
    assert fit.cost(last(24)).energy_j == pytest.approx(known_cost(last(24)).energy_j, rel=1e-3)
    far = fit.cost(last(60))
    assert far.energy_j_std > 0.2 * far.energy_j


def test_widths_of_other_names_are_refused_in_a_line() -> None:
    points = [
        (last(8), Cost(1.0, 0.1)),
        (replace(last(8), widths=Widths({"out": 8})), Cost(1.0, 0.1)),
    ]
    with pytest.raises(DataError, match="widths of different names"):
        fit_kind("last", points)
