"""Processes over sums, against the same thing written out plainly, and against themselves."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ampere.core.arrays import Array
from ampere.estimators.processes import sum_process
from ampere.estimators.processes.covariance import covariance
from ampere.estimators.processes.linear_mean import Layers
from ampere.estimators.processes.sum_process import NOVEL, SumProcess, condition, fit
from ampere.estimators.processes.totals import Context, Rows
from random_rows import (
    HYPER,
    all_beside,
    besides,
    conditioned,
    covariance_by_definition,
    seeds,
    some_layers,
    some_rows,
    timeless,
)


def joined(a: Layers, b: Layers) -> Layers:
    return Layers(
        **{f.name: np.concatenate([getattr(a, f.name), getattr(b, f.name)]) for f in fields(a)}
    )


def log_costs(
    layers: Layers, process: SumProcess, u: Array, b: Array, gamma: Array, delta: Array, w: Array
) -> Array:
    """Logarithms of what layers cost, from the definition."""
    hyper = process.hyper
    logs = []
    for i, op in enumerate(layers.op):
        off = hyper.coefficient * b[op] + hyper.trait * layers.traits[i] @ delta
        m = layers.features[i] @ (process.beta[op] * np.exp(off))
        steps = hyper.stairs * layers.stairs[i] @ gamma[op] + hyper.odd * layers.stairs[i, -1]
        logs.append(math.log(m) + steps + layers.lent[i] @ w + u[i])
    return np.array(logs)


@settings(max_examples=6)
@given(seeds)
def test_it_is_where_the_density_is_largest(seed: int) -> None:
    """Found by another search, over u, b and γ themselves."""
    layers = some_layers(4, seed)
    rows = some_rows(layers, 5, seed, noise=0.3)
    process = conditioned(layers, rows)
    root = np.linalg.cholesky(covariance_by_definition(layers, layers, HYPER))
    whiten = np.linalg.inv(np.linalg.cholesky(besides(rows, process)))
    shapes = [each.shape for each in process.point[1:]]
    sizes = [len(layers), *map(math.prod, shapes)]

    def log_totals(values: Array) -> Array:
        w, *others = np.split(values, np.cumsum(sizes)[:-1])
        parts = [each.reshape(shape) for each, shape in zip(others, shapes, strict=True)]
        return np.log(rows.counts @ np.exp(log_costs(layers, process, root @ w, *parts)))

    def loss(values: Array) -> float:
        off = whiten @ (np.log(rows.y) - log_totals(values))
        return float(off @ off + values @ values)

    best = minimize(loss, np.zeros(sum(sizes)), method="BFGS", options={"gtol": 1e-6})
    cost = process.costs(layers)
    np.testing.assert_allclose(np.log(rows.counts @ cost), log_totals(best.x), atol=5e-3)


@given(seeds)
def test_prediction_is_what_the_textbook_says_near_that_point(seed: int) -> None:
    """One joint normal distribution of the logarithms of rows and questions."""
    known = some_layers(5, seed)
    rows = some_rows(known, 7, seed)
    process = conditioned(known, rows)
    layers = joined(known, some_layers(4, seed + 1, known=False))
    asked = some_rows(layers, 3, seed)
    total, cov = process.predict(layers, asked.counts, asked.context)

    cost = process.costs(layers)
    room = np.zeros((7, 4))
    counts = np.vstack([np.hstack([rows.counts, room]), asked.counts])
    shares = counts * cost / (counts @ cost)[:, None]
    prior = shares @ covariance_by_definition(layers, layers, HYPER) @ shares.T
    directions = shares @ process.posterior(layers).directions
    both = (rows.context, asked.context)
    beside = np.block([[all_beside(one, two, HYPER) for two in both] for one in both])
    prior += directions @ directions.T + beside
    noise = np.zeros((10, 10))
    noise[:7, :7] = besides(rows, process)
    noise[:7, :7] -= beside[:7, :7]
    measured = (prior + noise)[:7, :7]
    gain = np.linalg.solve(measured, prior[:7, 7:]).T
    np.testing.assert_allclose(cov, prior[7:, 7:] - gain @ prior[:7, 7:], rtol=1e-4, atol=1e-6)
    dearer = np.exp(beside[7:, :7] @ process.alpha)
    np.testing.assert_allclose(total, (asked.counts @ cost) * dearer, rtol=1e-6)


@given(seeds)
def test_a_single_layer_is_a_process_of_logarithms(seed: int) -> None:
    """Where each network is one layer nothing is a sum, and nothing is approximated."""
    layers = some_layers(6, seed)
    rows = replace(timeless(some_rows(layers, 6, seed, noise=0.3)), counts=np.eye(6))
    rows = replace(rows, y=np.exp(np.random.default_rng(seed).normal(size=6)))
    flat = replace(
        HYPER, coefficient=1e-9, stairs=1e-9, trait=1e-9, depth=1e-9, block=1e-9, odd=0.0
    )
    process = conditioned(layers, rows, flat)
    m = np.array([layers.features[i] @ process.beta[op] for i, op in enumerate(layers.op)])
    k = covariance_by_definition(layers, layers, flat) + layers.lent @ layers.lent.T
    noise = flat.noise**2 * (m / flat.size) ** -flat.fading + rows.known_std**2
    expected = k @ np.linalg.solve(k + np.diag(noise), np.log(rows.y / m))
    np.testing.assert_allclose(np.log(process.costs(layers) / m), expected, rtol=1e-6, atol=1e-9)


@given(seeds, st.booleans())
def test_covariances_are_those_of_something(seed: int, known: bool) -> None:
    """Symmetric and positive semidefinite, before measuring and after."""
    layers = some_layers(8, seed, known)
    k = covariance(layers, layers, HYPER)
    np.testing.assert_allclose(k, k.T)
    assert np.linalg.eigvalsh(k).min() > 0  # rough is each layer's own
    measured = some_layers(5, seed + 1)
    process = conditioned(measured, some_rows(measured, 6, seed))
    asked = some_rows(layers, 6, seed)
    _, cov = process.predict(layers, asked.counts, asked.context)
    np.testing.assert_allclose(cov, cov.T, atol=1e-9 * cov.max())
    assert np.linalg.eigvalsh((cov + cov.T) / 2).min() > -1e-9 * cov.max()


@given(seeds, st.floats(0.0, 3.0))
def test_whatever_was_measured_nothing_costs_less_than_nothing(seed: int, noise: float) -> None:
    layers = some_layers(7, seed)
    process = conditioned(layers[:5], _of_first(some_rows(layers, 6, seed, noise), 5))
    total, cov = process.predict(layers, np.eye(7), Context.at(np.zeros(7)))
    assert (total > 0).all()
    assert np.isfinite(total).all() and np.isfinite(cov).all()


def _of_first(rows: Rows, n: int) -> Rows:
    """The same with the first layers only; no row is left without any."""
    one = np.eye(n)[np.arange(len(rows)) % n]
    return replace(rows, counts=rows.counts[:, :n] + one)


@given(seeds)
def test_without_noise_it_says_what_was_measured(seed: int) -> None:
    layers = some_layers(8, seed)
    rows = timeless(some_rows(layers, 5, seed, noise=0.05), known_std=np.zeros(5))
    process = conditioned(layers, rows, replace(HYPER, noise=2e-3, fading=0.0))
    total, cov = process.predict(layers, rows.counts, rows.context)
    np.testing.assert_allclose(total, rows.y, rtol=0.01)
    assert (np.diagonal(cov) < 1.05 * 2e-3**2).all()


@settings(max_examples=20, deadline=None)
@given(seeds, st.sampled_from([1e-6, 3.0, 1e9]))
def test_units_change_nothing_but_the_unit(seed: int, unit: float) -> None:
    layers = some_layers(5, seed)
    rows = some_rows(layers, 6, seed)
    one, other = fit(layers, rows), fit(layers, replace(rows, y=unit * rows.y))
    for a, b in zip(
        one.predict(layers, rows.counts, rows.context),
        other.predict(layers, rows.counts, rows.context),
        strict=True,
    ):
        np.testing.assert_allclose(b / (unit if a.ndim == 1 else 1.0), a, rtol=1e-4, atol=1e-9)


def test_noise_of_one_more_measurement_is_what_is_fitted_and_what_repeats_show() -> None:
    layers = some_layers(4, 0)
    rows = timeless(some_rows(layers, 3, 0), known_std=np.array([0.03, 0.03, 2.0]))
    even = replace(HYPER, fading=0.0)
    process = conditioned(layers, rows, even)  # one wild measurement does not make all wild
    np.testing.assert_allclose(process.noise_var(np.array([10.0, 1.0])), 0.0004 + 0.0009)
    seated = replace(rows, when=np.zeros(3), sitting=np.zeros(3, int))
    process = conditioned(layers, seated, even)
    np.testing.assert_allclose(process.noise_var(np.ones(1)), 0.0004 + 0.0009 + 0.0004 + 0.0009)
    assert process.drift_var == pytest.approx(0.0004 + 0.0009)


def test_noise_of_sizes_that_were_never_measured_is_that_of_the_nearest() -> None:
    layers = some_layers(4, 0)
    process = conditioned(layers, some_rows(layers, 6, 0), replace(HYPER, fading=0.5))
    sizes = HYPER.size * np.exp(process.linear.log_size)
    ends = process.noise_var(np.array([sizes.min(), sizes.max()]))
    np.testing.assert_allclose(process.noise_var(np.array([1e-9, 1e9])), ends)


def test_rows_of_one_minute_or_one_sitting_are_fewer_witnesses() -> None:
    layers = some_layers(5, 4)
    rows = timeless(some_rows(layers, 7, 4))
    alone = {"when": 600.0 * np.arange(7), "sitting": np.arange(7)}
    vars_ = []
    for shared in ({"when": np.zeros(7)}, {"sitting": np.zeros(7, int)}, {}):
        process = conditioned(layers, replace(rows, **{**alone, **shared}))
        vars_.append(process.predict(layers, rows.counts, rows.context)[1][0, 0])
    assert vars_[0] > vars_[2]
    assert vars_[1] > vars_[2]


def test_leave_one_out_is_what_all_other_rows_say() -> None:
    """Where totals are taken as linear at the same point."""
    layers = some_layers(5, 4)
    rows = timeless(some_rows(layers, 7, 4, noise=0.01))
    process = conditioned(layers, rows)
    for i, surprise in enumerate(process.leave_one_out):
        kept = np.flatnonzero(np.arange(7) != i)
        others = condition(layers, rows[kept], process.solution)
        total, cov = others.predict(layers, rows.counts[[i]], rows.context[[i]])
        context = rows.context[[i]]
        noise = besides(rows, process)[i, i] - all_beside(context, context, HYPER)[0, 0]
        std = math.sqrt(cov[0, 0] + noise)
        assert surprise == pytest.approx(math.log(rows.y[i] / total[0]) / std, abs=0.1)
        left = [float(each[i]) for each in process.left_out]
        assert left == pytest.approx([math.log(total[0]), std], abs=0.01)


def walked(dearer: float) -> SumProcess:
    """Variants (depth 0) and networks of depth 1 that are this much dearer."""
    layers = some_layers(4, 2)
    rows = timeless(some_rows(layers, 20, 2, noise=0.0))
    depth = np.repeat([0.0, 1.0], 10)
    y = rows.y * (1 + dearer * depth)
    return fit(layers, replace(rows, y=y, known_std=np.zeros(20), context=Context.at(depth)))


def test_depth_zero_costs_nothing_and_is_sure() -> None:
    assert walked(0.1).dearer(0.0) == (0.0, 0.0)


def test_a_dearer_depth_is_learned_where_it_was_measured_and_open_beyond() -> None:
    process = walked(0.1)
    mean, std = process.dearer(1.0)
    assert mean == pytest.approx(0.1, abs=0.03)
    assert std < 0.02
    beyond = [process.dearer(depth) for depth in (1.0, 1.5, 2.0, 4.0)]
    assert [mean for mean, _ in beyond] == pytest.approx([mean] * 4)  # a walk has no trend
    growth = [std for _, std in beyond]
    assert growth == sorted(growth)
    assert growth[-1] > 2 * growth[0]
    assert growth[-1] == pytest.approx(math.hypot(std, math.sqrt(3) * process.hyper.depth))


def test_an_additive_device_has_no_dearer_depth() -> None:
    mean, std = walked(0.0).dearer(1.0)
    assert abs(mean) < 0.01
    assert abs(mean) < 2 * std


def test_a_deeper_network_is_less_sure() -> None:
    process, layers = walked(0.1), some_layers(4, 2)
    total, cov = process.predict(layers, np.ones((3, 4)), Context.at(np.array([0.5, 1.0, 3.0])))
    var = np.diagonal(cov)
    assert total[1] == pytest.approx(total[2])
    assert var[2] > 2 * var[1]


@pytest.mark.parametrize("octaves", [-3, -1, 1, 3])
def test_beyond_the_sizes_that_were_measured_doubt_grows_by_the_octave(octaves: int) -> None:
    layers = some_layers(6, 5)
    process = conditioned(layers, some_rows(layers, 12, 5))
    asked = layers[:1]
    edge = layers.features[layers.op == asked.op[0], 2]
    size = (edge.max() if octaves > 0 else edge.min()) * 2.0**octaves
    beyond = replace(asked, features=np.array([[*asked.features[0, :2], size]]))
    one, other = (process.posterior(each).directions[0] for each in (asked, beyond))
    own = [*one[:-4] ** 2], [*other[-4:] ** 2]  # doubts stand last: three operations, novelty
    assert not one[-4:].any()
    assert math.sqrt(sum(own[1])) == pytest.approx(HYPER.beyond * abs(octaves))


def test_what_was_never_seen_is_doubted() -> None:
    layers = some_layers(6, 5)
    process = conditioned(layers, some_rows(layers, 12, 5))
    _, known = process.predict(layers[:1], np.ones((1, 1)), Context.at(np.zeros(1)))
    strange = replace(layers[:1], novel=np.ones(1))
    _, cov = process.predict(strange, np.ones((1, 1)), Context.at(np.zeros(1)))
    assert cov[0, 0] - known[0, 0] == pytest.approx(NOVEL**2)


def test_how_many_layers_are_held_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = some_layers(9, 7)
    rows = some_rows(layers, 8, 7)

    def answer() -> Array:
        total, cov = conditioned(layers, rows).predict(layers, rows.counts, rows.context)
        return np.vstack([total, cov])

    whole = answer()
    monkeypatch.setattr(sum_process, "BLOCK", 4)
    np.testing.assert_allclose(answer(), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [40, 80, 160, 320])
def test_more_rows_make_no_bias(n: int) -> None:
    """Rows of one moment that share a drift: what is noise must not be explained away."""
    ratios = []
    for seed in range(3):
        layers = some_layers(6, seed)
        rows = some_rows(layers, n, seed, noise=0.05)
        moment = {"when": np.zeros(n), "sitting": np.full(n, -1)}
        shallow = Context.at(np.zeros(n))
        rows = replace(rows, known_std=np.zeros(n), context=shallow, **moment)
        process = fit(layers, rows)
        total, _ = process.predict(layers, rows.counts, shallow)
        ratios.append(np.log(total / (rows.counts @ layers.features @ [1.0, 2.0, 0.5])).mean())
    assert abs(np.mean(ratios)) < 4 * 0.05 / math.sqrt(3 * n)


def test_a_pickled_process_predicts_and_learns_without_scipy(tmp_path: Path) -> None:
    layers = some_layers(5, 0)
    rows = some_rows(layers, 6, 0)
    process = fit(layers, rows[:5])
    path = tmp_path / "process.pickle"
    path.write_bytes(pickle.dumps((process, layers, rows)))
    code = (
        "import pickle, sys\n"
        "from ampere.estimators.processes.sum_process import condition\n"
        f"process, layers, rows = pickle.load(open({str(path)!r}, 'rb'))\n"
        "told = condition(layers, rows, process.solution)\n"
        "print(repr(float(told.predict(layers, rows.counts, rows.context)[0][5])))\n"
        "assert not any(name.startswith('scipy') for name in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    total, _ = condition(layers, rows, process.solution).predict(layers, rows.counts, rows.context)
    assert float(run.stdout) == pytest.approx(total[5], rel=1e-12)
