import itertools
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.structure import Structure
from ampere.core.variants import Isolation, Plan
from ampere.core.workloads import Workload
from ampere.errors import DataError, NotCovered
from ampere.estimators.baselines.neuralpower import STAGES, fit_neuralpower, isolated_workloads
from ampere.profiles.estimate import estimate
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement
from plain_rows import alone, layer, step

Truth = Callable[[Layer], float]


def grid(ins: Iterable[int] = (2, 33, 64), outs: Iterable[int] = (4, 36, 68)) -> list[Layer]:
    return [layer("conv", widths={"in": i, "out": o}) for i, o in itertools.product(ins, outs)]


def head_of(width: int) -> Layer:
    return layer("head", Role.LAST, widths={"in": width})


def quadratic(each: Layer) -> float:
    i, o = each.widths["in"], each.widths["out"]
    return 5 + 0.1 * i + 0.2 * o + 0.03 * i * o + 0.004 * i**2 + 0.005 * o**2


def rows(
    layers: Iterable[Layer], truth: Truth, shares: tuple[float, ...] = (0.3, 0.6, 0.1)
) -> list[Measurement]:
    """Stages that take these shares of the truth in joules, and a tenth of that in seconds."""
    return [
        alone(each, stage, share * truth(each), share * truth(each) / 10)
        for each in layers
        for stage, share in zip(STAGES, shares, strict=True)
    ]


def test_recovers_exact_quadratics_summed_over_the_stages() -> None:
    fit = fit_neuralpower(rows(grid(), quadratic))
    for unseen in grid(ins=(2, 17, 80), outs=(7, 68, 100)):
        cost = fit.cost(unseen)
        assert cost.energy_j == pytest.approx(quadratic(unseen))
        assert cost.time_s == pytest.approx(quadratic(unseen) / 10)
        assert cost.energy_j_std == pytest.approx(0, abs=1e-9)
    assert fit.method == "neuralpower"


def test_four_widths_recover_a_quadratic_of_one() -> None:
    def truth(each: Layer) -> float:
        return 1 + 0.5 * each.widths["in"] + 0.25 * each.widths["in"] ** 2

    fit = fit_neuralpower(rows(map(head_of, (1, 9, 17, 25)), truth))
    assert fit.cost(head_of(13)).energy_j == pytest.approx(1 + 6.5 + 0.25 * 169)


@pytest.mark.parametrize(
    ("widths", "at_13"),
    [
        ((0, 4, 8, 12), 169.0),  # a parabola
        ((0, 4, 8), 8 * 13 - 16 / 3),  # the straight line through three points, by least squares
        ((0, 4), 8.0),  # the mean
    ],
)
def test_fewer_points_get_a_lower_degree(widths: tuple[int, ...], at_13: float) -> None:
    fit = fit_neuralpower(rows(map(head_of, widths), lambda each: each.widths["in"] ** 2))
    assert fit.cost(head_of(13)).energy_j == pytest.approx(at_13)


def test_a_width_at_two_values_gets_no_square() -> None:
    # On (2, 64) the square cannot be told from the width itself, and must not bend the line.
    measured = grid(ins=(2, 64), outs=(4, 20, 36, 68))
    fit = fit_neuralpower(rows(measured, lambda each: 1.0 + each.widths["in"]))
    assert fit.cost(grid(ins=(33,), outs=(36,))[0]).energy_j == pytest.approx(34.0)


def test_a_kind_without_widths_costs_the_mean() -> None:
    pool = layer("pool")
    measured = [alone(pool, stage, joules) for stage in STAGES for joules in (0.9, 1.1)]
    cost = fit_neuralpower(measured).cost(pool)
    assert cost.energy_j == pytest.approx(3.0)
    assert cost.energy_j_std == pytest.approx(math.sqrt(3 * 0.02))
    assert cost.time_s is None


def test_layers_sum_up_to_the_network() -> None:
    heads = map(head_of, (4, 8, 12, 16))
    fit = fit_neuralpower(rows(grid(), quadratic) + rows(heads, lambda each: each.widths["in"]))
    conv = replace(grid(ins=(20,), outs=(20,))[0], count=3)
    result = estimate([conv, head_of(8)], fit)
    assert result.energy_j == pytest.approx(3 * quadratic(conv) + 8)
    assert result.method == "neuralpower"


def test_widths_beyond_the_measured_ones_are_extrapolated() -> None:
    fit = fit_neuralpower(rows(grid(), quadratic))
    inside, outside = grid(ins=(64,), outs=(4,))[0], grid(ins=(65,), outs=(4,))[0]
    assert not fit.is_extrapolated(inside)
    assert fit.is_extrapolated(outside)


@pytest.mark.parametrize("missing", STAGES)
def test_a_kind_that_lacks_a_stage_is_not_covered(missing: str) -> None:
    measured = [row for row in rows(grid(), quadratic) if row.stage != missing]
    measured += [alone(grid()[0], missing, None, failed=Failure("out of memory"))]
    with pytest.raises(NotCovered, match=f"measured alone: {missing}$"):
        fit_neuralpower(measured).cost(grid()[0])


def test_unknown_kinds_and_other_widths_are_not_covered() -> None:
    fit = fit_neuralpower(rows(grid(), quadratic))
    with pytest.raises(NotCovered, match="lstm"):
        fit.cost(layer("lstm", widths={"width": 8}))
    with pytest.raises(NotCovered, match="conv over width"):
        fit.cost(layer("conv", widths={"width": 8}))


def test_only_single_layers_in_single_stages_count() -> None:
    good = rows(grid(), quadratic)
    conv, head = grid()[0], head_of(4)
    odd = [
        step((conv,), 100.0),
        replace(good[0], layers=(conv, head), energy_j_per_step=100.0),
        replace(good[0], layers=(replace(conv, count=2),), energy_j_per_step=100.0),
    ]
    assert fit_neuralpower([*odd, *good]) == fit_neuralpower(good)
    with pytest.raises(DataError, match="none of 3 measurements"):
        fit_neuralpower(odd)


noisy_grids = st.lists(st.floats(0.1, 10), min_size=27, max_size=27).map(
    lambda values: [
        alone(each, stage, value, value / 5)
        for (each, stage), value in zip(itertools.product(grid(), STAGES), values, strict=True)
    ]
)


@given(noisy_grids, st.floats(1e-3, 1e3))
def test_scaling_all_joules_scales_the_estimate(measured: list[Measurement], by: float) -> None:
    scaled = [replace(row, energy_j_per_step=by * row.energy_j_per_step) for row in measured]
    unseen = grid(ins=(20,), outs=(50,))[0]
    before, after = fit_neuralpower(measured).cost(unseen), fit_neuralpower(scaled).cost(unseen)
    assert after.energy_j == pytest.approx(by * before.energy_j, rel=1e-6, abs=by * 1e-9)
    assert after.energy_j_std == pytest.approx(by * before.energy_j_std, rel=1e-6, abs=by * 1e-9)
    assert after.time_s == before.time_s


@given(noisy_grids, st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(measured: list[Measurement], seed: int) -> None:
    shuffled = random.Random(seed).sample(measured, len(measured))
    unseen = grid(ins=(20,), outs=(50,))[0]
    before, after = fit_neuralpower(measured).cost(unseen), fit_neuralpower(shuffled).cost(unseen)
    assert after.energy_j == pytest.approx(before.energy_j, rel=1e-6, abs=1e-9)
    assert after.energy_j_std == pytest.approx(before.energy_j_std, rel=1e-6, abs=1e-9)


def isolation(
    name: str, role: Role, multiples: dict[str, int], **bounds: tuple[int, int]
) -> Isolation:
    structure = Structure((), (), (), multiples=multiples)
    return Isolation(LayerKind(name, role, name, structure=structure), bounds)


PLAN = Plan(
    (
        isolation("head", Role.LAST, {"in": 1}, **{"in": (1, 64)}),
        isolation("stem", Role.FIRST, {"out": 1}, out=(1, 2)),
        isolation("conv", Role.HIDDEN, {"in": 1, "out": 4}, **{"in": (1, 21), "out": (4, 32)}),
        isolation("fixed", Role.HIDDEN, {}),
        isolation("stand-in", Role.LAST, {"in": 1}, **{"in": (1, 64)}),
    )
)


def points(kind: str) -> list[tuple[int, ...]]:
    chosen = isolated_workloads(PLAN, {kind})
    return [tuple(layers[0].widths.values()) for work, layers in chosen if work.stage == "update"]


def test_the_design_of_each_number_of_widths() -> None:
    assert points("head") == [(1,), (22,), (43,), (64,)]
    assert points("conv") == list(itertools.product((1, 11, 21), (4, 16, 32)))
    assert points("fixed") == [()]
    assert points("stem") == [(1,), (2,)]


def test_each_point_is_one_layer_at_each_of_three_stages() -> None:
    chosen = isolated_workloads(PLAN, ["conv", "fixed"])
    assert len(chosen) == 3 * (9 + 1)
    assert {work.stage for work, _ in chosen} == {"forward", "backward", "update"}
    assert all(work == Workload(layers, stage=work.stage) for work, layers in chosen)
    assert all(len(layers) == 1 for _, layers in chosen)
    assert {layers[0].kind.name for _, layers in chosen} == {"conv", "fixed"}


def test_only_kinds_that_are_wanted_and_planned_are_measured() -> None:
    assert isolated_workloads(PLAN, {"unheard of"}) == []
    assert isolated_workloads(PLAN, ()) == []


def test_bounds_without_a_multiple_between_them_give_the_smallest_one() -> None:
    odd = Plan((isolation("conv", Role.HIDDEN, {"out": 8}, out=(3, 7)),))
    assert {layers[0].widths["out"] for _, layers in isolated_workloads(odd, {"conv"})} == {8}


@given(st.integers(1, 40), st.integers(0, 400), st.integers(1, 16))
def test_widths_are_multiples_between_the_bounds(low: int, span: int, multiple: int) -> None:
    high = max(low + span, multiple * -(-low // multiple))
    plan = Plan((isolation("conv", Role.FIRST, {"out": multiple}, out=(low, high)),))
    widths = [layers[0].widths["out"] for _, layers in isolated_workloads(plan, {"conv"})][::3]
    allowed = [width for width in range(low, high + 1) if width % multiple == 0]
    assert set(widths) <= set(allowed)
    assert (widths[0], widths[-1]) == (allowed[0], allowed[-1])
    assert len(widths) == min(4, len(allowed))
    gaps = [b - a for a, b in itertools.pairwise(widths)]
    assert max(gaps, default=0) - min(gaps, default=0) <= multiple


def test_the_design_suffices_for_the_fit() -> None:
    def truth(each: Layer) -> float:
        return 1.0 + sum(width**2 for width in each.widths.values())

    chosen = isolated_workloads(PLAN, {"head", "conv", "fixed"})
    fit = fit_neuralpower(
        [alone(layers[0], work.stage, truth(layers[0])) for work, layers in chosen]
    )
    for unseen in (layer("conv", widths={"in": 5, "out": 20}), head_of(50), layer("fixed")):
        assert fit.cost(unseen).energy_j == pytest.approx(3 * truth(unseen))


def test_fewer_sizes_can_be_asked_for() -> None:
    chosen = isolated_workloads(PLAN, {"conv"}, levels=2)
    widths = {tuple(layers[0].widths.values()) for _, layers in chosen}
    assert widths == set(itertools.product((1, 21), (4, 32)))
