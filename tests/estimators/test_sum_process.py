"""Processes over sums, against the same thing written out plainly, and against themselves."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from ampere.core.arrays import Array
from ampere.estimators import linear_mean, sum_process
from ampere.estimators.linear_mean import Layers, expand
from ampere.estimators.sum_process import Hyper, Rows, SumProcess, covariance, fit

HYPER = Hyper(0.3, 0.2, 0.05, 0.02, 0.08, (2.0, 1.3, 3.0))
OPERATIONS, KINDS, FEATURES = 2, 3, 3

seeds = st.integers(0, 10_000)


def some_layers(n: int, seed: int, known: bool = True) -> Layers:
    """Layers at whole places, so that some share coordinates; the last coordinate never varies."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, KINDS, n)
    kind[: min(n, KINDS)] = range(min(n, KINDS))  # every operation is there
    x = np.column_stack([rng.integers(0, 4, (n, 2)), np.ones(n)]).astype(float)
    op = np.minimum(kind, OPERATIONS - 1)
    if not known:
        op[-1] = kind[-1] = -1
    return Layers(rng.uniform(0.2, 3.0, (n, FEATURES)), x, op, kind, rng.permutation(n) + 99 * seed)


def some_rows(layers: Layers, n: int, seed: int, noise: float = 0.05) -> Rows:
    """Networks of a few layers, and what they cost if a layer costs its features."""
    rng = np.random.default_rng(seed + 1)
    counts = rng.integers(0, 3, (n, len(layers))).astype(float)
    counts[np.arange(n), np.arange(n) % len(layers)] += 1.0
    y = counts @ layers.features @ [1.0, 2.0, 0.5] * np.exp(noise * rng.normal(size=n))
    known, context = rng.uniform(0.0, 0.03, n), rng.choice([0.0, 0.5, 1.5], n)
    return Rows(counts, y, known, context, rng.choice([0.0, 30.0, 600.0, math.nan], n))


def timeless(rows: Rows, **changes: Array) -> Rows:
    """The same rows, measured nobody knows when."""
    return replace(rows, when=np.full(len(rows), math.nan), **changes)


def drift(when: Array) -> Array:
    """What measurements of one minute share, from its definition."""
    shared = [[0.03**2 * math.exp(-abs(a - b) / 60) for b in when] for a in when]
    return np.where(np.isnan(shared), 0.0, shared)


def given_beta(process: SumProcess, layers: Layers, rows: Rows) -> SumProcess:
    """All these rows at once, with the coefficients and hyper-parameters of a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sum_process, "fit_coefficients", lambda *_: process.beta)
        return fit(layers, rows, process.hyper)


def relative_covariance(a: Layers, i: int, b: Layers, j: int, hyper: Hyper) -> float:
    """K of two layers, from its definition."""
    r = math.sqrt(5) * np.abs(a.x[i] - b.x[j]) / np.array(hyper.lengths)
    shape = float(np.prod((1 + r + r**2 / 3) * np.exp(-r)))
    same = a.id[i] == b.id[j]
    total = hyper.rough**2 if same else 0.0
    if same or a.op[i] == b.op[j] >= 0:
        total += hyper.operation**2 * shape
    if same or a.kind[i] == b.kind[j] >= 0:
        total += hyper.kind**2 * shape
    return total


def prior(layers: Layers, counts: Array, context: Array, process: SumProcess) -> tuple[Array, ...]:
    """Mean and covariance of totals before anything is measured, sum by sum."""
    hyper, beta = process.hyper, process.beta
    m = [float(layers.features[i] @ beta[layers.op[i]]) for i in range(len(layers))]
    k = np.array(
        [
            [relative_covariance(layers, i, layers, j, hyper) for j in range(len(layers))]
            for i in range(len(layers))
        ]
    )
    t = len(counts)
    total = np.zeros((t, t))
    size = counts @ m
    for a in range(t):
        for b in range(t):
            total[a, b] += (counts[a] * m) @ k @ (counts[b] * m)
            for op in {*layers.op.tolist()}:
                ours = layers.op == op
                one, two = (counts[row, ours] @ layers.features[ours] * beta[op] for row in (a, b))
                total[a, b] += sum_process.COEFFICIENT**2 * one @ two
            total[a, b] += hyper.context**2 * min(context[a], context[b]) * size[a] * size[b]
    return size, total


def conditioned(process: SumProcess, layers: Layers, counts: Array, context: Array) -> list[Array]:
    """Mean and covariance by the textbook: one joint normal distribution of rows and questions.

    `layers` start with those of the process.
    """
    rows, n = process.rows, len(process.rows)
    room = np.zeros((n, len(layers) - len(process.layers)))
    every = np.vstack([np.hstack([rows.counts, room]), counts])
    mean, total = prior(layers, every, np.append(rows.context, context), process)
    noise = np.diag(process.hyper.noise**2 + rows.known_std**2) + drift(rows.when)
    noise = noise * np.outer(process.scale, process.scale)
    gain = np.linalg.solve(total[:n, :n] + noise, total[:n, n:]).T
    return [mean[n:] + gain @ (rows.y - mean[:n]), total[n:, n:] - gain @ total[:n, n:]]


def joined(a: Layers, b: Layers) -> Layers:
    return Layers(*(np.concatenate([getattr(a, name), getattr(b, name)]) for name in vars(a)))


@given(seeds)
def test_prediction_is_what_the_textbook_says(seed: int) -> None:
    known = some_layers(5, seed)
    process = fit(known, some_rows(known, 7, seed), HYPER)
    layers = joined(known, some_layers(4, seed + 1, known=False))
    asked = some_rows(layers, 3, seed)
    mean, cov = process.predict(layers, asked.counts, asked.context)
    expected_mean, expected_cov = conditioned(process, layers, asked.counts, asked.context)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-8)
    np.testing.assert_allclose(cov, expected_cov, rtol=1e-6, atol=1e-9 * cov.max())


@given(seeds)
def test_likelihood_is_the_density_of_the_rows_and_its_gradient_is_right(seed: int) -> None:
    layers = some_layers(6, seed)
    rows = some_rows(layers, 8, seed)
    process = fit(layers, rows, HYPER)
    likelihood = sum_process._Likelihood(layers, rows, process.beta, process.scale)
    assert set(likelihood.varying) <= {0, 1}  # the third never varies, the others may not either
    scales = HYPER.operation, HYPER.kind, HYPER.rough, HYPER.noise, HYPER.context
    theta = np.log([*scales, *np.array(HYPER.lengths)[likelihood.varying]])
    value, gradient = likelihood(theta)

    size, total = prior(layers, rows.counts, rows.context, process)
    scale = process.scale
    total = total / np.outer(scale, scale) + np.diag(HYPER.noise**2 + rows.known_std**2)
    total += drift(rows.when)
    density = multivariate_normal.logpdf((rows.y - size) / scale, cov=total)
    assert value == pytest.approx(density + len(rows) / 2 * math.log(2 * math.pi), rel=1e-8)

    steps = 1e-5 * np.eye(len(theta))
    numeric = [(likelihood(theta + s)[0] - likelihood(theta - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_likelihood_of_layers_that_differ_in_no_coordinate() -> None:
    layers = replace(some_layers(3, 0), x=np.ones((3, 2)))
    rows = some_rows(layers, 4, 0)
    process = fit(layers, rows)
    likelihood = sum_process._Likelihood(layers, rows, process.beta, process.scale)
    _, gradient = likelihood(np.log([0.3, 0.2, 0.05, 0.02, 0.08]))
    assert gradient.shape == (5,)


@given(seeds, st.integers(0, 3))
def test_one_row_more_is_the_same_as_all_at_once(seed: int, new: int) -> None:
    layers = some_layers(6 + new, seed)
    rows = some_rows(layers, 9, seed)
    counts = rows.counts.copy()
    counts[:-1, 6:] = 0.0  # only the last row has the new layers
    rows = replace(rows, counts=counts)
    few = rows[:8]
    before = fit(layers[:6], replace(few, counts=few.counts[:, :6]), HYPER)
    grown, whole = before.add(layers, rows[8:]), given_beta(before, layers, rows)
    for name in ("whitener", "alpha"):
        scale = np.abs(getattr(whole, name)).max()
        np.testing.assert_allclose(getattr(grown, name), getattr(whole, name), atol=1e-8 * scale)
    for name, values in vars(whole.rows).items():
        np.testing.assert_array_equal(getattr(grown.rows, name), values)
    asked = some_rows(layers, 4, seed + 7)
    for one, other in zip(
        grown.predict(layers, asked.counts, asked.context),
        whole.predict(layers, asked.counts, asked.context),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())


def test_rows_added_one_by_one_are_the_same_as_all_at_once() -> None:
    layers = some_layers(6, 1)
    rows = some_rows(layers, 12, 1)
    process = fit(layers, rows[:3], HYPER)
    whole = given_beta(process, layers, rows)
    for i in range(3, 12):
        process = process.add(layers, rows[i : i + 1])
    np.testing.assert_allclose(process.alpha, whole.alpha, rtol=1e-8)
    np.testing.assert_allclose(process.leave_one_out, whole.leave_one_out, rtol=1e-8)


@given(seeds, st.booleans())
def test_covariances_are_those_of_something(seed: int, known: bool) -> None:
    """Symmetric and positive semidefinite, before measuring and after."""
    layers = some_layers(8, seed, known)
    k = covariance(layers, layers, HYPER)
    np.testing.assert_allclose(k, k.T)
    assert np.linalg.eigvalsh(k).min() > 0  # rough is each layer's own
    measured = some_layers(5, seed + 1)
    process = fit(measured, some_rows(measured, 6, seed), HYPER)
    asked = some_rows(layers, 6, seed)
    _, cov = process.predict(layers, asked.counts, asked.context)
    np.testing.assert_allclose(cov, cov.T, atol=1e-9 * cov.max())
    assert np.linalg.eigvalsh((cov + cov.T) / 2).min() > -1e-9 * cov.max()


@given(seeds)
def test_measuring_never_makes_less_sure(seed: int) -> None:
    layers = some_layers(6, seed)
    rows = some_rows(layers, 8, seed)
    before = fit(layers, rows[:7], HYPER)
    after = before.add(layers, rows[7:])
    asked = some_rows(layers, 5, seed + 3)
    _, cov = before.predict(layers, asked.counts, asked.context)
    _, less = after.predict(layers, asked.counts, asked.context)
    assert (np.diagonal(less) <= np.diagonal(cov) * (1 + 1e-9)).all()
    assert (np.diagonal(less) >= 0).all()


@given(seeds)
def test_without_noise_it_says_what_was_measured(seed: int) -> None:
    layers = some_layers(8, seed)
    rows = timeless(some_rows(layers, 5, seed, noise=0.3), known_std=np.zeros(5))
    process = fit(layers, rows, replace(HYPER, noise=1e-6))
    mean, cov = process.predict(layers, rows.counts, rows.context)
    np.testing.assert_allclose(mean, rows.y, rtol=1e-5)
    np.testing.assert_allclose(np.diagonal(cov) / rows.y**2, 0.0, atol=1e-9)


def test_noise_of_one_more_measurement_is_what_is_fitted_and_what_repeats_show() -> None:
    layers = some_layers(4, 0)
    rows = timeless(some_rows(layers, 3, 0), known_std=np.array([0.03, 0.03, 2.0]))
    process = fit(layers, rows, HYPER)  # one wild measurement does not make all wild
    np.testing.assert_allclose(
        process.noise_var(np.array([10.0, 1.0])), [0.0004e2 + 0.0009e2, 0.0004 + 0.0009]
    )
    timed = fit(layers, replace(rows, when=np.zeros(3)), HYPER)
    np.testing.assert_allclose(timed.noise_var(np.array([1.0])), 0.0004 + 0.0009 + 0.0009)


def test_rows_of_one_minute_are_fewer_witnesses() -> None:
    layers = some_layers(5, 4)
    rows = timeless(some_rows(layers, 7, 4))
    stds = []
    for when in (np.zeros(7), 600.0 * np.arange(7)):
        process = fit(layers, replace(rows, when=when), HYPER)
        stds.append(process.predict(layers, rows.counts, rows.context)[1][0, 0])
    assert stds[0] > stds[1]


def test_leave_one_out_is_what_all_other_rows_say() -> None:
    layers = some_layers(5, 4)
    rows = timeless(some_rows(layers, 7, 4))
    process = fit(layers, rows, HYPER)
    for i, surprise in enumerate(process.leave_one_out):
        kept = np.flatnonzero(np.arange(7) != i)
        others = given_beta(process, layers, rows[kept])
        mean, cov = others.predict(layers, rows.counts[[i]], rows.context[[i]])
        noise = (HYPER.noise**2 + rows.known_std[i] ** 2) * process.scale[i] ** 2
        std = math.sqrt(cov[0, 0] + noise)
        assert surprise == pytest.approx((rows.y[i] - mean[0]) / std)
        assert [each[i] for each in process.left_out] == pytest.approx([mean[0], std])


def walked(dearer: float) -> SumProcess:
    """Variants (context 0) and networks of context 1 that are this much dearer."""
    layers = some_layers(4, 2)
    rows = some_rows(layers, 20, 2, noise=0.0)
    context = np.repeat([0.0, 1.0], 10)
    y = rows.y * (1 + dearer * context)
    return fit(layers, replace(rows, y=y, known_std=np.zeros(20), context=context))


def test_context_zero_costs_nothing_and_is_sure() -> None:
    assert walked(0.1).dearer(0.0) == (0.0, 0.0)


def test_a_dearer_context_is_learned_where_it_was_measured_and_open_beyond() -> None:
    process = walked(0.1)
    mean, std = process.dearer(1.0)
    assert mean == pytest.approx(0.1, abs=0.03)
    assert std < 0.02
    beyond = [process.dearer(context) for context in (1.0, 1.5, 2.0, 4.0)]
    assert [mean for mean, _ in beyond] == pytest.approx([mean] * 4)  # a walk has no trend
    growth = [std for _, std in beyond]
    assert growth == sorted(growth)
    assert growth[-1] > 2 * growth[0]
    assert growth[-1] == pytest.approx(math.hypot(std, math.sqrt(3) * process.hyper.context))


def test_an_additive_device_has_no_dearer_context() -> None:
    mean, std = walked(0.0).dearer(1.0)
    assert abs(mean) < 0.01
    assert abs(mean) < 2 * std


def test_a_network_of_a_deeper_context_is_less_sure() -> None:
    process, layers = walked(0.1), some_layers(4, 2)
    context = np.array([0.5, 1.0, 3.0])
    mean, cov = process.predict(layers, np.ones((3, 4)), context)
    var = np.diagonal(cov)
    assert mean[1] == pytest.approx(mean[2])
    assert var[2] > 2 * var[1]


@given(seeds, st.integers(1, 12), st.floats(1e-9, 1e9))
def test_coefficients_are_never_negative(seed: int, n: int, unit: float) -> None:
    layers = some_layers(6, seed)
    rows = some_rows(layers, n, seed, noise=1.0)
    beta = linear_mean.fit_coefficients(layers, rows.counts, unit * rows.y)
    assert beta.shape == (OPERATIONS + 1, FEATURES)
    assert (beta > 0).all()  # deviations are relative to it
    before = linear_mean.fit_coefficients(layers, rows.counts, rows.y)
    np.testing.assert_allclose(beta, unit * before, rtol=1e-6)


def test_a_feature_that_no_layer_has_costs_nothing() -> None:
    layers = some_layers(6, 3)
    layers = replace(layers, features=layers.features * [1.0, 0.0, 1.0])
    rows = some_rows(layers, 8, 3)
    beta = linear_mean.fit_coefficients(layers, rows.counts, rows.y)
    assert (beta[:, 1] == 0).all()
    assert (beta[:, [0, 2]] > 0).all()


def test_coefficients_of_exact_sums_are_found() -> None:
    layers = some_layers(30, 5)
    rows = some_rows(layers, 40, 5, noise=0.0)
    beta = linear_mean.fit_coefficients(layers, rows.counts, rows.y)
    said = rows.counts @ expand(layers, beta).sum(1)
    np.testing.assert_allclose(said, rows.y, rtol=0.02)


def test_operations_that_were_never_measured_have_the_coefficients_of_all() -> None:
    layers = some_layers(4, 0, known=False)
    beta = np.arange(1.0, 10.0).reshape(3, 3)
    parts = expand(layers, beta).reshape(4, 3, 3)
    for i, op in enumerate(layers.op):
        np.testing.assert_array_equal(parts[i, op], layers.features[i] * beta[op])
        assert not np.delete(parts[i], op, axis=0).any()
    np.testing.assert_array_equal(parts[3, 2], layers.features[3] * beta[2])


def test_what_was_never_measured_is_like_itself_only() -> None:
    known = some_layers(4, 0)
    strange = replace(
        known[:2], op=np.array([-1, -1]), kind=np.array([-1, -1]), id=np.array([1, 2])
    )
    assert not covariance(strange, replace(known, id=known.id + 100), HYPER).any()
    expected = HYPER.operation**2 + HYPER.kind**2 + HYPER.rough**2
    np.testing.assert_allclose(covariance(strange, strange, HYPER), expected * np.eye(2))


def test_a_known_operation_lends_to_a_new_kind_and_less_the_further_it_is() -> None:
    known = some_layers(1, 0)
    known = replace(known, x=np.zeros((1, 3)))
    kinds = [
        replace(known, x=np.array([[octaves, 0.0, 0.0]]), kind=np.array([-1]), id=np.array([-5]))
        for octaves in (0.0, 1.0, 3.0)
    ]
    shares = [float(covariance(kind, known, HYPER)[0, 0]) for kind in kinds]
    assert shares[0] == pytest.approx(HYPER.operation**2)
    assert shares[0] > shares[1] > shares[2] > 0


def test_too_many_rows_and_layers_are_fitted_on_some_and_conditioned_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layers = some_layers(12, 6)
    counts = np.eye(12)[np.arange(60) % 12] + np.eye(12)[np.arange(60) // 5]
    rows = replace(some_rows(layers, 60, 6), counts=counts)
    rows = replace(rows, y=counts @ layers.features @ [1.0, 2.0, 0.5])
    monkeypatch.setattr(sum_process, "FIT_ROWS", 20)
    assert len(set(sum_process._few(rows)[0])) == 20
    monkeypatch.setattr(sum_process, "FIT_LAYERS", 8)
    chosen, used = sum_process._few(rows)
    assert 1 < len(chosen) < 20
    assert 1 < len(used) <= 8
    assert not np.delete(rows.counts[chosen], used, axis=1).any()
    process = fit(layers, rows)
    assert len(process.rows) == len(process.alpha) == 60
    assert len(process.layers) == 12
    mean, _ = process.predict(layers, rows.counts, rows.context)
    np.testing.assert_allclose(mean, rows.y, rtol=0.02)


def test_a_network_of_too_many_layers_is_still_fitted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = some_layers(6, 0)
    rows = some_rows(layers, 3, 0)
    monkeypatch.setattr(sum_process, "FIT_LAYERS", 1)
    chosen, used = sum_process._few(rows)
    assert len(chosen) == 1
    assert len(used) > 1
    assert math.isfinite(fit(layers, rows).log_density)


def test_how_many_layers_are_held_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = some_layers(9, 7)
    rows = some_rows(layers, 8, 7)

    def answer() -> Array:
        process = fit(layers, rows, HYPER)
        mean, cov = process.predict(layers, rows.counts, rows.context)
        return np.vstack([mean, cov])

    whole = answer()
    monkeypatch.setattr(sum_process, "BLOCK", 4)
    np.testing.assert_allclose(answer(), whole, rtol=1e-9, atol=1e-12)


def test_fitted_hyper_parameters_maximise_likelihood_times_priors() -> None:
    layers = some_layers(6, 8)
    rows = some_rows(layers, 15, 8)
    process = fit(layers, rows)
    likelihood = sum_process._Likelihood(layers, rows, process.beta, process.scale)
    priors = np.array([*sum_process.PRIORS, sum_process.LENGTH, sum_process.LENGTH])

    def density(theta: Array) -> float:
        off = (theta - np.log(priors[:, 0])) / priors[:, 1]
        return likelihood(theta)[0] - float(off @ off) / 2

    hyper = process.hyper
    scales = hyper.operation, hyper.kind, hyper.rough, hyper.noise, hyper.context
    best = np.log([*scales, *hyper.lengths[:2]])
    assert hyper.lengths[2] == sum_process.LENGTH[0]  # it never varies, so nothing is known of it
    assert process.log_density == pytest.approx(density(best))
    for step in 0.05 * np.vstack([np.eye(7), -np.eye(7)]):
        assert density(best) > density(best + step)


def test_fitted_noise_is_that_of_the_rows() -> None:
    layers = some_layers(5, 9)
    quiet, loud = (
        fit(layers, replace(some_rows(layers, 40, 9, noise), known_std=np.zeros(40)))
        for noise in (0.005, 0.2)
    )
    assert quiet.hyper.noise < 0.02
    assert 0.12 < loud.hyper.noise < 0.3


def test_a_pickled_process_predicts_and_learns_without_scipy(tmp_path: Path) -> None:
    layers = some_layers(5, 0)
    rows = some_rows(layers, 6, 0)
    process = fit(layers, rows[:5])
    path = tmp_path / "process.pickle"
    path.write_bytes(pickle.dumps((process, layers, rows[5:])))
    code = (
        "import pickle, sys\n"
        f"process, layers, row = pickle.load(open({str(path)!r}, 'rb'))\n"
        "mean, _ = process.add(layers, row).predict(layers, row.counts, row.context)\n"
        "print(repr(float(mean[0])))\n"
        "assert not any(name.startswith('scipy') for name in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    told = process.add(layers, rows[5:])
    mean, _ = told.predict(layers, rows.counts[5:], rows.context[5:])
    assert float(run.stdout) == pytest.approx(mean[0], rel=1e-12)
