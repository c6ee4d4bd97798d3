"""The additive method: networks of known costs are measured, and their layers come out."""

from __future__ import annotations

import math
import random
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.baselines.roofline import fit_roofline
from ampere.estimators.drift import seen_drift
from ampere.estimators.encoding.contexts import contexts_of
from ampere.estimators.encoding.encoder import STEP, distinct
from ampere.estimators.fitting import fit_additive
from ampere.estimators.intervals import inflation
from ampere.estimators.processes import likelihood
from ampere.profiles import profile as profile_module
from ampere.profiles.estimate import estimate
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement
from priced_rows import (
    OTHERS,
    ROWS,
    STEP_J,
    conv,
    first,
    joules,
    kind,
    linear,
    measured,
    members,
    network,
    noisy,
    pool,
    price,
    relative_std,
    scaled,
    without_features,
    worst,
)

widths = st.lists(st.integers(1, 96), min_size=1, max_size=4)


seeds = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def fit() -> AdditiveFit:
    return fit_additive(ROWS)


@pytest.mark.parametrize("seed", range(3))
def test_whole_networks_alone_teach_their_layers(seed: int) -> None:
    """Nothing is isolated: twelve random members, and any other one is known."""
    fit = fit_additive([measured(layers) for layers in members(12, seed)])
    for layers in members(20, seed + 100):
        said, true = fit.predict(layers).total, measured(layers)
        assert said.energy_j == pytest.approx(true.energy_j_per_step, rel=0.03)
        assert said.time_s == pytest.approx(true.time_s_per_step, rel=0.03)


def test_variants_and_members_teach_more_than_a_total() -> None:
    """With variants among the rows each line is right: what a step and a last layer cost besides
    cannot be told apart, since no network has one of them alone."""
    alone = [(linear(w),) for w in (4, 16, 40, 64)]
    two = [(first(w), linear(w)) for w in (4, 16, 40, 64)]
    rows = [measured(layers) for layers in (*alone, *two, *members(12, seed=3))]
    said = fit_additive(rows).predict(network(30, 50, 20))
    *convolutions, last, step = said.lines
    for line in convolutions:
        assert line.cost.energy_j == pytest.approx(price(line.layer), rel=0.1)
        assert abs(line.cost.energy_j - price(line.layer)) < 3 * line.cost.energy_j_std
    together = last.cost.energy_j + step.cost.energy_j
    assert together == pytest.approx(price(last.layer) + STEP_J, rel=0.1)
    assert last.cost.energy_j_std > 0.3 * last.cost.energy_j


@settings(max_examples=5)
@given(seeds, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(seed: int, shuffle: random.Random) -> None:
    rows = noisy(members(9, seed), seed)
    one, two = fit_additive(rows), fit_additive(shuffle.sample(rows, len(rows)))
    for layers in OTHERS[:3]:
        np.testing.assert_allclose(
            list(vars(two.predict(layers).total).values()),
            list(vars(one.predict(layers).total).values()),
            rtol=1e-9,
        )


def test_nor_does_it_if_hyper_parameters_are_fitted_on_some_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(likelihood, "FIT_ROWS", 5)
    rows = noisy(members(20, seed=17), seed=17, noise=0.1)
    assert fit_additive(rows).energy.hyper == fit_additive(rows[::-1]).energy.hyper


@settings(max_examples=5)
@given(seeds, st.sampled_from([0.5, 2.0, 1024.0]))
def test_twice_the_joules_are_twice_the_estimate(seed: int, factor: float) -> None:
    rows = noisy(members(9, seed), seed)
    one, two = fit_additive(rows), fit_additive([scaled(row, factor) for row in rows])
    for layers in OTHERS[:3]:
        before, after = one.predict(layers), two.predict(layers)
        assert after.total.energy_j == pytest.approx(factor * before.total.energy_j, rel=1e-6)
        assert relative_std(after) == pytest.approx(relative_std(before), rel=1e-6)
        assert after.total.time_s == pytest.approx(before.total.time_s, rel=1e-6)


@given(widths, st.integers(1, 5))
def test_a_total_is_the_sum_of_its_lines(fit: AdditiveFit, sizes: list[int], count: int) -> None:
    layers = (*network(*sizes), conv(8, 9, count=count), pool(5))
    said = fit.predict(layers)
    assert [line.layer for line in said.lines] == [*layers, STEP]
    assert math.fsum(line.cost.energy_j for line in said.lines) == pytest.approx(
        said.total.energy_j
    )
    assert math.fsum(line.cost.time_s for line in said.lines) == pytest.approx(said.total.time_s)


@cache
def few_rows(number: int) -> AdditiveFit:
    return fit_additive(noisy(members(number, number), number))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=4), st.integers(1, 10**4),
       st.integers(1, 6))  # fmt: skip
def test_deviations_are_never_negative(sizes: list[int], count: int, number: int) -> None:
    fit = few_rows(number)
    said = fit.predict((*network(*sizes), conv(7, sizes[0], height=900, count=count)))
    for cost in (said.total, *(line.cost for line in said.lines)):
        assert all(math.isfinite(value) for value in vars(cost).values())
        assert cost.energy_j_std >= 0
        assert cost.time_s_std >= 0
    assert said.total.energy_j_std > 0


@pytest.mark.parametrize("refit", [True, False])
def test_a_network_that_is_measured_once_more_is_known_better(refit: bool) -> None:
    rows = noisy(members(10, seed=4), seed=4)
    target = measured(network(5, 60, 7))
    stds = []
    fit = fit_additive(rows)
    for n in range(4):
        if n:
            fit = fit_additive([*rows, *[target] * n]) if refit else fit.tell(target)
        stds.append(fit.predict(target.layers).total.energy_j_std)
    assert stds == sorted(stds, reverse=True)
    assert stds[-1] < 0.9 * stds[0]


def test_noise_is_in_the_interval_of_a_total(fit: AdditiveFit) -> None:
    loud = fit_additive(noisy(members(30, seed=5), seed=5, noise=0.15))
    for layers in OTHERS:
        assert relative_std(loud.predict(layers)) > 0.1 > 0.03 > relative_std(fit.predict(layers))


def test_an_interval_is_wider_while_rows_are_few(fit: AdditiveFit) -> None:
    """Its width itself is known from so many rows only."""
    layers, process = OTHERS[0], fit.energy
    found, counts = distinct([(*layers, STEP)])
    context = contexts_of([layers])
    mean, var = process.predict(fit.encoder.encode(found), counts, context)
    normal = math.sqrt(var[0, 0] + process.noise_var(mean)[0])
    said = fit.predict(layers).total
    assert said.energy_j == pytest.approx(mean[0])
    assert said.energy_j_std == pytest.approx(inflation(12) * normal * said.energy_j)


def test_what_repeats_show_is_in_the_interval_too() -> None:
    fit = fit_additive([replace(row, spread=0.4, repeats=4) for row in ROWS])
    for layers in OTHERS:
        assert relative_std(fit.predict(layers)) > 0.2


def test_nine_of_ten_intervals_hold() -> None:
    inside = []
    for seed in range(5):
        said = fit_additive(noisy(members(30, seed), seed, noise=0.02))
        for row in noisy(members(25, seed + 50), seed + 50, noise=0.02):
            low, high = estimate(row.layers, said).energy_j_interval
            inside.append(low < row.energy_j_per_step < high)
    assert 0.84 < np.mean(inside) < 0.97


def test_a_kind_that_was_never_measured_is_borrowed_and_named(fit: AdditiveFit) -> None:
    strange = replace(conv(20, 20), name="strange", kind=kind(Role.HIDDEN, "conv", kernel=3))
    known, borrowed = (*network(20, 20), conv(20, 20)), (*network(20, 20), strange)
    before, after = estimate(known, fit), estimate(borrowed, fit)
    assert after.energy_j_std / after.energy_j > 1.5 * before.energy_j_std / before.energy_j
    assert [line.layer.name for line in after.lines if line.borrowed] == ["strange"]
    (warning,) = (text for text in after.warnings if "borrowed" in text)
    assert warning.endswith(": strange")
    assert not any("borrowed" in text for text in before.warnings)


def test_what_only_a_step_leaves_open_of_the_last_layer_is_not_open() -> None:
    """Every network has both, once."""
    ends = [measured((linear(width),)) for width in (4, 16, 32, 64)]
    said = fit_additive([*ROWS, *ends]).predict(network(20, 20))
    assert len(said.open_j) == len(said.lines)
    *others, last, _ = zip(said.lines, said.open_j, strict=True)
    line, open_j = last
    assert open_j < line.cost.energy_j_std / 3
    for line, open_j in others:
        assert line.cost.energy_j_std / 3 < open_j <= line.cost.energy_j_std


def test_an_operation_that_was_never_measured_is_borrowed_too(fit: AdditiveFit) -> None:
    layers = (*network(20, 20), pool(20))
    said = fit.predict(layers)
    assert [line.layer.name for line in said.lines if line.borrowed] == ["pool"]
    assert said.lines[-2].cost.energy_j > 0
    assert said.lines[-2].cost.energy_j_std > 0.3 * said.lines[-2].cost.energy_j
    assert said.total.energy_j == pytest.approx(joules(layers), abs=2 * said.total.energy_j_std)


def test_nothing_is_said_if_nothing_is_familiar(fit: AdditiveFit) -> None:
    said = fit.predict([pool(20)])
    assert said.lines == ()
    assert said.uncovered == (pool(20),)
    assert math.isnan(said.total.energy_j)


def test_beyond_the_measured_widths_it_says_so_and_is_less_sure(fit: AdditiveFit) -> None:
    inside, outside = (estimate(network(20, w, w, 20), fit) for w in (40, 1500))
    assert not any(line.extrapolated for line in inside.lines)
    assert [line.extrapolated for line in outside.lines] == [False, True, True, True, False, False]
    blind, beyond = outside.warnings[:2]
    assert "knows too little" in blind and "extrapolated" in beyond
    assert outside.energy_j_std / outside.energy_j > 3 * inside.energy_j_std / inside.energy_j
    assert outside.energy_j == pytest.approx(joules(network(20, 1500, 1500, 20)), rel=0.3)


def test_deeper_networks_than_the_measured_ones_are_less_sure(fit: AdditiveFit) -> None:
    stds = [relative_std(fit.predict(network(*[30] * n))) for n in (3, 12, 60, 300)]
    assert stds == sorted(stds)
    assert stds[-1] > 3 * stds[0]


@pytest.mark.parametrize("untimed", [1, 12])
def test_rows_without_time_teach_joules(untimed: int, fit: AdditiveFit) -> None:
    rows = [replace(row, time_s_per_step=None) for row in ROWS[:untimed]] + ROWS[untimed:]
    said, expected = fit_additive(rows).predict(OTHERS[0]).total, fit.predict(OTHERS[0]).total
    assert said.energy_j == pytest.approx(expected.energy_j)
    assert said.energy_j_std == pytest.approx(expected.energy_j_std)
    if untimed == len(ROWS):
        assert said.time_s is None and said.time_s_std is None
    else:  # the others tell seconds, a little less surely
        assert said.time_s == pytest.approx(expected.time_s, rel=0.05)


def test_a_row_without_time_leaves_seconds_as_they_were(fit: AdditiveFit) -> None:
    untimed = replace(measured(OTHERS[0]), time_s_per_step=None)
    before, after = fit.predict(OTHERS[0]).total, fit.tell(untimed).predict(OTHERS[0]).total
    assert (after.time_s, after.time_s_std) == pytest.approx(
        (before.time_s, before.time_s_std), rel=0.4
    )  # what is known better of its joules is known better of its seconds
    assert after.energy_j_std < before.energy_j_std


def test_rows_without_features_are_enough() -> None:
    rows = [replace(row, layers=without_features(row.layers)) for row in ROWS]
    fit = fit_additive(rows)
    for layers in OTHERS:
        bare, counted = fit.predict(without_features(layers)), fit.predict(layers)
        assert bare.uncovered == counted.uncovered == ()
        assert bare.total.energy_j == pytest.approx(joules(layers), rel=0.1)
        assert counted.total == bare.total  # what nobody counted while measuring is no help


def test_layers_without_features_are_not_covered_where_all_others_have_them(
    fit: AdditiveFit,
) -> None:
    *rest, last = network(20, 30)
    (bare,) = without_features([replace(last, widths=Widths({"in": 33}))])
    said = fit.predict([*rest, bare])
    assert said.uncovered == (bare,)
    assert len(said.lines) == len(rest) + 1


def test_rows_without_attributes_are_enough() -> None:
    def plain(layers: Iterable[Layer]) -> tuple[Layer, ...]:
        return tuple(replace(layer, kind=replace(layer.kind, attributes={})) for layer in layers)

    fit = fit_additive([replace(row, layers=plain(row.layers)) for row in ROWS])
    for layers in OTHERS:
        assert fit.predict(plain(layers)).total.energy_j == pytest.approx(joules(layers), rel=0.02)


def test_attributes_may_be_anything_that_json_is() -> None:
    def wordy(layers: Iterable[Layer]) -> tuple[Layer, ...]:
        more = {"kernel": [3, 3], "mode": "same", "groups": None, "bias": True, "padding": -1}
        return tuple(
            replace(layer, kind=replace(layer.kind, attributes={**layer.kind.attributes, **more}))
            for layer in layers
        )

    fit = fit_additive([replace(row, layers=wordy(row.layers)) for row in ROWS])
    for layers in OTHERS:
        assert fit.predict(wordy(layers)).total.energy_j == pytest.approx(joules(layers), rel=0.02)


def test_layers_written_once_with_a_count_are_the_same_as_written_out() -> None:
    def repeated(written_out: bool) -> list[Measurement]:
        rows = []
        for i, row in enumerate(ROWS):
            n, layer = 1 + i % 4, conv(10 + i, 12)
            block = [layer] * n if written_out else [replace(layer, count=n)]
            rows.append(measured((*row.layers, *block)))
        return rows

    one, two = (fit_additive(repeated(written_out)) for written_out in (False, True))
    asked = (*network(10, 20), conv(15, 12, count=3))
    said = one.predict(asked).total
    assert said.energy_j == pytest.approx(joules(asked), rel=0.02)
    flat = two.predict((*network(10, 20), *[conv(15, 12)] * 3)).total
    assert said.energy_j == pytest.approx(flat.energy_j, rel=1e-6)
    assert said.energy_j_std == pytest.approx(flat.energy_j_std, rel=1e-6)


def test_failed_rows_and_other_stages_are_ignored(fit: AdditiveFit) -> None:
    clutter = [
        Measurement(OTHERS[0], failed=Failure("out of memory")),
        Measurement(OTHERS[0], 99.0, 99.0, stage="forward"),
    ]
    assert fit_additive([*clutter, *ROWS]).predict(OTHERS[0]) == fit.predict(OTHERS[0])
    for nothing in (clutter, []):
        for fitter in (fit_additive, fit_roofline):
            with pytest.raises(DataError, match="no measurement to fit"):
                fitter(nothing)


@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_one_more_row_moves_the_estimate_towards_it(factor: float, fit: AdditiveFit) -> None:
    row = measured(network(17, 33, 21), factor)
    before, after = fit.predict(row.layers).total, fit.tell(row).predict(row.layers).total
    told = row.energy_j_per_step
    assert abs(after.energy_j - told) < abs(before.energy_j - told)
    assert min(before.energy_j, told) < after.energy_j < max(before.energy_j, told)
    assert after.energy_j_std < before.energy_j_std
    assert abs(after.time_s - row.time_s_per_step) < abs(before.time_s - row.time_s_per_step)
    assert after.time_s_std < before.time_s_std


def test_a_told_row_may_have_counts(fit: AdditiveFit) -> None:
    once = (*network(20, 30), conv(30, 30, count=3))
    written_out = (*network(20, 30), *[conv(30, 30)] * 3)
    one, two = (fit.tell(measured(layers, 1.2)) for layers in (once, written_out))
    assert 3 + 3 + 1 in one.energy.rows.counts.sum(1)  # and a step
    expected = list(vars(two.predict(once).total).values())
    assert list(vars(one.predict(once).total).values()) == pytest.approx(expected)


def test_rows_told_one_by_one_are_as_good_as_all_at_once() -> None:
    rows = noisy(members(18, seed=9), seed=9, noise=0.01)
    told = fit_additive(rows[:12])
    for row in rows[12:]:
        told = told.tell(row)
    whole = fit_additive(rows)
    for layers in OTHERS:
        one, other = told.predict(layers).total, whole.predict(layers).total
        assert one.energy_j == pytest.approx(other.energy_j, rel=0.01)
        assert one.energy_j == pytest.approx(joules(layers), rel=0.02)


def test_widths_of_a_told_row_are_not_extrapolated_any_more(fit: AdditiveFit) -> None:
    large = network(20, 900, 20)
    told = fit.tell(measured(large))
    assert any(line.extrapolated for line in fit.predict(large).lines)
    assert not any(line.extrapolated for line in told.predict(large).lines)
    assert told.predict(large).total.energy_j == pytest.approx(joules(large), rel=0.05)


def test_a_told_row_without_time_teaches_joules(fit: AdditiveFit) -> None:
    row = replace(measured(network(17, 33, 21), 1.03), time_s_per_step=None)
    before, after = fit.predict(row.layers).total, fit.tell(row).predict(row.layers).total
    assert after.energy_j > before.energy_j


def test_a_told_row_that_failed_or_is_no_step_changes_nothing(fit: AdditiveFit) -> None:
    assert fit.tell(Measurement(OTHERS[0], failed=Failure("out of memory"))) is fit
    assert fit.tell(Measurement(OTHERS[0], 9.0, stage="forward")) is fit


def test_a_new_kind_needs_a_new_fit_and_a_profile_makes_it(fit: AdditiveFit) -> None:
    new = measured((*network(20, 20), pool(20)))
    with pytest.raises(DataError, match="new kinds"):
        fit.tell(new)
    profile = profile_module.fit(ROWS)
    *_, pooled, _ = profile.estimate(new.layers).lines  # and the fit is made
    assert (pooled.borrowed, pooled.unsettled) == (True, False)
    said = profile.tell(new).estimate(new.layers)
    *_, pooled, _ = said.lines
    assert (pooled.borrowed, pooled.unsettled) == (False, True)  # it was in one sum only
    assert said.energy_j == pytest.approx(new.energy_j_per_step, rel=0.02)


def test_a_profile_updates_the_fit_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(rows: Sequence[Measurement], *settings: object) -> AdditiveFit:
        made.append(len(rows))
        return fit_additive(rows)

    monkeypatch.setattr(profile_module, "fit_rows", counted)
    profile = profile_module.fit(ROWS)
    row = measured(network(17, 33, 21), 1.03)
    profile.tell(row)
    assert made == []  # none was made, so there is none to update
    before = profile.estimate(row.layers).energy_j
    told = profile.tell(row)
    assert before < told.estimate(row.layers).energy_j < row.energy_j_per_step
    assert profile.estimate(row.layers).energy_j == before
    assert made == [len(ROWS)]  # what was told is added to it


@pytest.mark.parametrize("height", [12, 16, 24])
def test_a_new_map_size_of_a_known_operation_is_within_its_interval(height: int) -> None:
    rng = random.Random(10)
    rows = [
        measured(network(*(rng.randint(4, 64) for _ in range(3)), height=known))
        for known in (8, 14, 32)
        for _ in range(6)
    ]
    fit = fit_additive(rows)
    for sizes in ((10, 20, 30), (40, 50, 60)):
        said = estimate(network(*sizes, height=height), fit)
        low, high = said.energy_j_interval
        true = joules(network(*sizes, height=height))
        assert low < true < high
        assert said.energy_j == pytest.approx(true, rel=0.1)
        assert [line.borrowed for line in said.lines] == [False, True, True, False, False]


def mixed_rows(dearer: float) -> list[Measurement]:
    """Variants of up to three layers, and whole networks of twelve that are dearer than these."""
    rng = random.Random(11)
    sizes = [[rng.randint(4, 64) for _ in range(11)] for _ in range(10)]
    variants = [
        *(measured([linear(some[0])]) for some in sizes),
        *(measured(network(some[0])) for some in sizes),
        *(measured(network(*some[:2])) for some in sizes),
    ]
    return [*variants, *(measured(network(*some), 1 + dearer) for some in sizes)]


@pytest.mark.parametrize(("dearer", "word"), [(0.1, "more"), (-0.1, "less")])
def test_networks_that_are_no_sums_of_their_layers_are_noted(dearer: float, word: str) -> None:
    fit = fit_additive(mixed_rows(dearer))
    (note,) = fit.notes
    found = re.search(r"networks of 12 layers take (\d+)% ± (\d+)% (\w+) than", note)
    assert found is not None
    assert abs(int(found[1]) - 10) <= 3
    assert found[3] == word
    asked = network(*range(10, 54, 4))
    assert len(asked) == 12
    assert fit.predict(asked).total.energy_j == pytest.approx(
        (1 + dearer) * joules(asked), rel=0.03
    )


def test_networks_that_are_sums_of_their_layers_are_not_noted() -> None:
    assert fit_additive(mixed_rows(0.0)).notes == ()


def test_a_cliff_widens_the_interval() -> None:
    def cliff(layer: Layer) -> float:
        steep = layer.kind.role is Role.HIDDEN and layer.widths["out"] > 96
        return (2 if steep else 1) * price(layer)

    networks, asked = members(30, seed=12, top=192), members(20, seed=13, top=192)
    smooth, steep = (
        fit_additive([measured(layers, price=each) for layers in networks])
        for each in (price, cliff)
    )
    for layers in asked:
        assert relative_std(steep.predict(layers)) > 2 * relative_std(smooth.predict(layers))
    inside = 0
    for layers in asked:
        low, high = estimate(layers, steep).energy_j_interval
        inside += low < joules(layers, cliff) < high
    assert inside >= 0.75 * len(asked)


def test_scatter_without_a_pattern_is_noted() -> None:
    (note,) = fit_additive(noisy(members(30, seed=5), seed=5, noise=0.25)).notes
    assert "scatter" in note


@pytest.mark.parametrize("tile", [8, pytest.param(16, marks=pytest.mark.slow), 32])
def test_the_stairs_of_a_device_are_learned(tile: int) -> None:
    def tiled(layer: Layer) -> float:
        rounded = math.prod(-(-width // tile) * tile / width for width in layer.widths.values())
        flops = layer.features.flops
        assert flops is not None
        more = replace(layer.features, flops=rounded * flops)
        return price(replace(layer, features=more))

    fit = fit_additive([measured(layers, price=tiled) for layers in members(40, seed=14)])
    assert worst(fit, members(20, seed=15), tiled) < 0.05


def test_widths_of_a_sort_that_was_never_measured_are_doubted() -> None:
    """Multiples of 8 tell nothing of what others cost."""
    networks = [network(*(8 * random.Random(seed + i).randint(1, 8) for i in range(3)))
                for seed in range(12)]  # fmt: skip
    fit = fit_additive([measured(layers) for layers in networks])
    even, odd = (relative_std(fit.predict(network(*sizes))) for sizes in ((40, 40), (43, 43)))
    assert odd > 1.3 * even


def test_one_row_is_enough_to_answer_and_not_to_be_sure() -> None:
    fit = fit_additive(ROWS[:1])
    same, other = fit.predict(ROWS[0].layers), fit.predict(network(64, 4, 64))
    assert same.total.energy_j == pytest.approx(ROWS[0].energy_j_per_step, rel=0.02)
    assert relative_std(other) > 0.1


def test_seconds_of_other_operations_tell_nothing() -> None:
    untimed = [replace(row, time_s_per_step=None) for row in ROWS]
    foreign = pool(32)
    told = fit_additive([*untimed, measured([foreign])])
    said = told.predict(OTHERS[0])
    assert said.total.time_s is None
    assert said.total.energy_j == pytest.approx(joules(OTHERS[0]), rel=0.2)
    assert math.isfinite(told.predict([foreign]).total.time_s)


def in_sittings(levels: Sequence[float]) -> list[Measurement]:
    """Networks measured together, four at a time, beside a reference that came to these levels."""
    rows = []
    for i, row in enumerate(noisy(members(4 * len(levels), seed=8), seed=8, noise=0.01)):
        reference = [levels[i // 4]] * 5
        bursts = {"energy_j": [row.energy_j] * 5, "time_s": [row.time_s] * 5}
        bursts |= {"reference_energy_j": reference, "reference_time_s": reference}
        when = f"2026-11-17T12:00:{2 * i:02}+00:00"
        rows.append(replace(row, sitting=f"s{i // 4}", when=when, bursts=bursts))
    return rows


def test_a_reference_that_moves_from_sitting_to_sitting_tells_of_the_next_moment() -> None:
    """Rows of one minute agree; only the reference shows what their device does in the next."""
    calm, restless = [2.0, 2.01, 1.99, 2.0, 2.01], [2.0, 2.3, 1.8, 2.2, 1.7]
    assert seen_drift(in_sittings(calm), 0.03) < 0.025
    assert 0.08 < seen_drift(in_sittings(restless), 0.03) < 0.12
    assert seen_drift(in_sittings([2.0]), 0.03) == 0.03  # one sitting tells nothing
    assert seen_drift(ROWS, 0.03) == 0.03  # nor do rows without a reference
    asked = network(30, 50, 20)
    narrow, wide = (
        relative_std(fit_additive(in_sittings(levels)).predict(asked))
        for levels in (calm, restless)
    )
    assert wide > 1.5 * narrow


UPDATES = {"sgd": 1.0, "momentum": 1.3, "adagrad": 2.5, "adam": 4.0, "adamw": 5.0, "lion": 2.0}
UPDATES["rmsprop"] = 3.0


def any_linear(rng: random.Random) -> Measurement:
    """A linear layer of any size and optimiser, metered to 1 %."""
    n_in, n_out = (int(2 ** rng.uniform(0, 12)) for _ in range(2))
    batch, optimizer = rng.randint(1, 64), rng.choice([*UPDATES])
    activation = rng.choice(["none", "relu", "tanh", "sigmoid"])
    weights = n_in * n_out
    features = Features(6.0 * batch * weights, 4.0 * batch * (n_in + n_out), 4.0 * weights)
    chosen = {"batch": batch, "optimizer": optimizer, "activation": activation}
    kind = LayerKind(f"linear {activation} {optimizer}", Role.LAST, "linear", chosen)
    layer = Layer("fc", kind, Widths({"in": n_in, "out": n_out}), features)
    update = UPDATES[optimizer]
    price = (
        3e-4 * (1 + 0.2 * math.log(update)) + 7.2e-12 * batch * weights + 8e-11 * update * weights
    )
    return Measurement((layer,), price * math.exp(rng.gauss(0.0, 0.01)))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(more, marks=pytest.mark.slow) for more in (2, 3))]
)
def test_an_exact_meter_leads_nobody_astray(seed: int) -> None:
    """Rows over many orders of magnitude: where the search ends must be where the rows are."""
    rng = random.Random(seed)
    rows = [any_linear(rng) for _ in range(80)]
    fit = fit_additive(rows)
    off = [fit.predict(row.layers).total.energy_j / row.energy_j - 1 for row in rows]
    assert abs(statistics.median(off)) < 0.002
    assert statistics.fmean(map(abs, off)) < 0.01


def test_rows_told_in_any_order_and_together_are_the_same(fit: AdditiveFit) -> None:
    """Coefficients and hyper-parameters are equal, so nothing but rounding may differ."""
    more = noisy(members(3, seed=21), seed=21, noise=0.01)
    whole = fit.tell(*more)
    for order in (more, more[::-1]):
        one_by_one = fit
        for row in order:
            one_by_one = one_by_one.tell(row)
        for layers in OTHERS[:3]:
            np.testing.assert_allclose(
                list(vars(one_by_one.predict(layers).total).values()),
                list(vars(whole.predict(layers).total).values()),
                rtol=1e-7,
            )


def test_an_attribute_beyond_the_measured_ones_is_extrapolated(fit: AdditiveFit) -> None:
    inside, beyond = (fit.predict(network(20, 30, 40, height=side)) for side in (16, 63))
    assert not any(line.extrapolated for line in inside.lines)
    assert any(line.extrapolated or line.borrowed for line in beyond.lines)
    assert relative_std(beyond) > 2 * relative_std(inside)
