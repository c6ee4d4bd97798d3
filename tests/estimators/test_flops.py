import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Role
from ampere.errors import DataError, NotCovered
from ampere.estimators.baselines.flops import FlopsFit, fit_flops, fit_flops_affine
from ampere.profiles.estimate import estimate
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement
from plain_rows import layer, network, step

Fitter = Callable[[Sequence[Measurement]], FlopsFit]
FITTERS = [fit_flops, fit_flops_affine]
SIZES = [(1e6, 2e5), (4e6, 2e5), (2e7, 1e6), (3e8, 5e5)]

sizes = st.floats(1e5, 1e9)
rows_of_any_cost = st.lists(
    st.builds(
        lambda hidden, last, joules, seconds: step(network(hidden, last), joules, seconds),
        *(sizes, sizes, st.floats(1e-3, 1e3), st.floats(1e-4, 10)),
    ),
    min_size=3,
    max_size=8,
    unique_by=lambda row: round(math.log(sum(each.features.flops or 0 for each in row.layers)), 2),
)


def rows(a_j: float, b_j: float, a_s: float = 0.0, b_s: float = 1e-9) -> list[Measurement]:
    """What a device would show if the affine line were the truth."""
    return [
        step(network(hidden, last), a_j + b_j * (hidden + last), a_s + b_s * (hidden + last))
        for hidden, last in SIZES
    ]


def total(fit: FlopsFit, hidden: float, last: float) -> float:
    return estimate(network(hidden, last), fit).energy_j


@pytest.mark.parametrize("fitter", FITTERS)
def test_recovers_constant_joules_per_flop(fitter: Fitter) -> None:
    result = estimate(network(7e7, 3e6), fitter(rows(0, 2e-9)))
    assert result.energy_j == pytest.approx(2e-9 * 7.3e7)
    assert result.time_s == pytest.approx(1e-9 * 7.3e7)
    assert result.energy_j_std == pytest.approx(0, abs=1e-9)


def test_affine_recovers_the_constant_and_charges_it_once_to_the_last_layer() -> None:
    fit = fit_flops_affine(rows(0.3, 2e-9, 0.01, 1e-9))
    result = estimate((layer("stem", Role.FIRST, 1e6), *network(7e7, 3e6, count=5)), fit)
    flops = 1e6 + 5 * 7e7 + 3e6
    assert result.energy_j == pytest.approx(0.3 + 2e-9 * flops)
    assert result.time_s == pytest.approx(0.01 + 1e-9 * flops)
    assert [line.cost.energy_j for line in result.lines] == pytest.approx(
        [2e-9 * 1e6, 2e-9 * 5 * 7e7, 0.3 + 2e-9 * 3e6]
    )


def test_methods_have_their_names() -> None:
    assert [fitter(rows(0, 1e-9)).method for fitter in FITTERS] == ["flops", "flops_affine"]


def test_the_number_of_equal_layers_counts_when_calibrating() -> None:
    fit = fit_flops([step(network(1e6, 1e6, count=9), 10.0)])
    assert fit.cost(layer("conv", flops=1e6)).energy_j == pytest.approx(1.0)


def test_proportional_follows_the_large_network_and_affine_the_small_one_too() -> None:
    overhead = rows(0.1, 1e-9)
    small, large = 0.1 + 1e-9 * 1.2e6, 0.1 + 1e-9 * 3.005e8
    proportional = fit_flops(overhead)
    assert total(proportional, 3e8, 5e5) == pytest.approx(large, rel=0.05)
    assert total(proportional, 1e6, 2e5) < 0.1 * small
    assert total(fit_flops_affine(overhead), 1e6, 2e5) == pytest.approx(small)


def test_affine_weighs_errors_relative_to_each_total() -> None:
    pairs = [(1e6, 0.9), (1e6, 1.1), (9e6, 90.0), (9e6, 110.0)]
    fit = fit_flops_affine([step(network(flops, 0.0), joules) for flops, joules in pairs])
    weights = [1 / joules for _, joules in pairs]
    b, a = np.polyfit([flops for flops, _ in pairs], [joules for _, joules in pairs], 1, w=weights)
    assert a < 0  # so it is held at 0, and b is fitted alone
    ratios = np.array([flops / joules for flops, joules in pairs])
    assert fit.energy.constant == 0
    assert fit.energy.per_flop == pytest.approx(ratios.sum() / (ratios**2).sum())
    assert fit.energy.per_flop != pytest.approx(b)


def test_affine_is_weighted_least_squares_where_that_is_positive() -> None:
    pairs = [(1e6, 0.9), (2e6, 1.3), (9e6, 3.0), (5e7, 11.0)]
    fit = fit_flops_affine([step(network(flops, 0.0), joules) for flops, joules in pairs])
    flops, joules = zip(*pairs, strict=True)
    b, a = np.polyfit(flops, joules, 1, w=[1 / value for value in joules])
    assert (fit.energy.constant, fit.energy.per_flop) == pytest.approx((a, b))


def test_affine_slope_is_not_negative() -> None:
    falling = [step(network(flops, 0.0), joules) for flops, joules in [(1e6, 2.0), (1e7, 1.0)]]
    fit = fit_flops_affine(falling)
    assert fit.energy.per_flop == 0
    assert fit.energy.constant == pytest.approx((1 / 2 + 1) / (1 / 4 + 1))


@given(rows_of_any_cost, st.floats(0, 2), st.floats(0, 2))
def test_no_other_line_that_is_allowed_fits_better(
    measured: list[Measurement], a: float, b: float
) -> None:
    fit = fit_flops_affine(measured).energy

    def loss(constant: float, per_flop: float) -> float:
        flops = [sum(each.features.flops or 0 for each in row.layers) for row in measured]
        return math.fsum(
            (1 - (constant + per_flop * f) / row.energy_j_per_step) ** 2
            for f, row in zip(flops, measured, strict=True)
        )

    assert fit.constant >= 0
    assert fit.per_flop >= 0
    best = loss(fit.constant, fit.per_flop)
    scale_a = min(row.energy_j_per_step for row in measured)
    rivals = [(a * fit.constant, b * fit.per_flop), (fit.constant + a * scale_a, b * fit.per_flop)]
    assert all(best <= loss(*rival) * (1 + 1e-9) + 1e-12 for rival in rivals)


def test_networks_of_one_size_cannot_tell_a_constant() -> None:
    fit = fit_flops_affine([step(network(1e6, 1e6), 1.0), step(network(1.5e6, 5e5), 1.0)])
    assert fit.energy.constant == 0
    assert total(fit, 2e6, 2e6) == pytest.approx(2.0)


def test_rows_without_a_last_layer_leave_no_constant() -> None:
    plain = [step((layer("conv", flops=f),), 1.0 + 1e-6 * f) for f in (1e6, 2e6, 5e6)]
    fit = fit_flops_affine(plain)
    assert fit.energy.constant == 0
    assert total(fit, 1e6, 1e6) == total(fit, 0.0, 2e6) > 0


def test_the_error_is_the_relative_scatter_of_the_totals() -> None:
    fit = fit_flops([step(network(flops, 0.0), j) for flops, j in [(1e6, 0.8), (1e6, 1.2)]])
    assert fit.energy.per_flop == pytest.approx(1e-6)
    assert fit.energy.error == pytest.approx(math.hypot(1 - 1 / 0.8, 1 - 1 / 1.2))
    cost = fit.cost(layer("conv", flops=3e6))
    assert cost.energy_j_std == pytest.approx(3 * fit.energy.error)


@pytest.mark.parametrize("fitter", FITTERS)
def test_a_layer_without_flops_is_not_covered(fitter: Fitter) -> None:
    fit = fitter(rows(0.1, 1e-9))
    with pytest.raises(NotCovered, match="FLOPs of odd"):
        fit.cost(layer("odd"))
    result = estimate((layer("odd"), *network(1e6, 1e6)), fit)
    assert [each.name for each in result.uncovered] == ["odd"]


@pytest.mark.parametrize("fitter", FITTERS)
def test_rows_that_say_nothing_are_left_out(fitter: Fitter) -> None:
    good = rows(0.0, 1e-9)
    odd = [
        step(network(1e6, None), 50.0),
        replace(good[0], failed=Failure("out of memory"), energy_j_per_step=None),
        replace(good[0], stage="forward", energy_j_per_step=70.0),
    ]
    assert fitter([*odd, *good]) == fitter(good)
    with pytest.raises(DataError, match="none of 3 measurements"):
        fitter(odd)


@pytest.mark.parametrize("fitter", FITTERS)
def test_nothing_to_calibrate_on(fitter: Fitter) -> None:
    with pytest.raises(DataError, match="nothing to calibrate"):
        fitter([])
    with pytest.raises(DataError, match="nothing to calibrate"):
        fitter([step(network(0.0, 0.0), 1.0)])


@pytest.mark.parametrize("fitter", FITTERS)
def test_seconds_are_optional(fitter: Fitter) -> None:
    silent = [replace(row, time_s_per_step=None) for row in rows(0, 1e-9)]
    cost = fitter(silent).cost(layer("conv", flops=1e6))
    assert cost.time_s is None
    assert cost.energy_j == pytest.approx(1e-3)
    timed = fitter([*silent[:2], *rows(0, 1e-9, 0, 3e-9)[2:]])
    assert timed.cost(layer("conv", flops=1e6)).time_s == pytest.approx(3e-3)


@pytest.mark.parametrize("fitter", FITTERS)
@given(measured=rows_of_any_cost, by=st.floats(1e-3, 1e3))
def test_scaling_all_joules_scales_the_estimate(
    fitter: Fitter, measured: list[Measurement], by: float
) -> None:
    scaled = [replace(row, energy_j_per_step=by * row.energy_j_per_step) for row in measured]
    before = estimate(network(1e7, 1e6), fitter(measured))
    after = estimate(network(1e7, 1e6), fitter(scaled))
    assert after.energy_j == pytest.approx(by * before.energy_j, rel=1e-6)
    assert after.energy_j_std == pytest.approx(by * before.energy_j_std, rel=1e-6, abs=1e-9)
    assert after.time_s == before.time_s


@pytest.mark.parametrize("fitter", FITTERS)
@given(measured=rows_of_any_cost, seed=st.integers(0, 99))
def test_the_order_of_rows_does_not_matter(
    fitter: Fitter, measured: list[Measurement], seed: int
) -> None:
    shuffled = random.Random(seed).sample(measured, len(measured))
    before, after = (estimate(network(1e7, 1e6), fitter(some)) for some in (measured, shuffled))
    assert after.energy_j == pytest.approx(before.energy_j, rel=1e-6)
    assert after.time_s == pytest.approx(before.time_s, rel=1e-6)
