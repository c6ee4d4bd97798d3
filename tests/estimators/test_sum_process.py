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

from ampere.core.arrays import Array
from ampere.estimators.processes import sum_process
from ampere.estimators.processes.covariance import covariance
from ampere.estimators.processes.linear_mean import Layers
from ampere.estimators.processes.sum_process import SumProcess, condition, fit
from ampere.estimators.processes.totals import Rows
from random_rows import (
    HYPER,
    drift,
    prior,
    seeds,
    some_layers,
    some_rows,
    timeless,
)


def given_beta(process: SumProcess, layers: Layers, rows: Rows) -> SumProcess:
    """All these rows at once, with the coefficients and hyper-parameters of a process."""
    return condition(layers, rows, process.solution)


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
    for one, other in (
        (grown.factor.whitener, whole.factor.whitener),
        (grown.alpha, whole.alpha),
    ):
        np.testing.assert_allclose(one, other, atol=1e-8 * np.abs(other).max())
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
