"""Likelihood: the density of rows, its gradient, and where it is largest."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import multivariate_normal

from ampere.core.arrays import Array
from ampere.estimators.processes import likelihood as likelihood_module
from ampere.estimators.processes.likelihood import LENGTH, PRIORS, Likelihood, some_of
from ampere.estimators.processes.sum_process import fit
from random_rows import (
    HYPER,
    drift,
    prior,
    seeds,
    some_layers,
    some_rows,
)


@given(seeds)
def test_likelihood_is_the_density_of_the_rows_and_its_gradient_is_right(seed: int) -> None:
    layers = some_layers(6, seed)
    rows = some_rows(layers, 8, seed)
    process = fit(layers, rows, HYPER)
    likelihood = Likelihood(layers, rows, process.beta, process.scale)
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
    likelihood = Likelihood(layers, rows, process.beta, process.scale)
    _, gradient = likelihood(np.log([0.3, 0.2, 0.05, 0.02, 0.08]))
    assert gradient.shape == (5,)


def test_too_many_rows_and_layers_are_fitted_on_some_and_conditioned_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layers = some_layers(12, 6)
    counts = np.eye(12)[np.arange(60) % 12] + np.eye(12)[np.arange(60) // 5]
    rows = replace(some_rows(layers, 60, 6), counts=counts)
    rows = replace(rows, y=counts @ layers.features @ [1.0, 2.0, 0.5])
    monkeypatch.setattr(likelihood_module, "FIT_ROWS", 20)
    assert len(set(some_of(rows)[0])) == 20
    monkeypatch.setattr(likelihood_module, "FIT_LAYERS", 8)
    chosen, used = some_of(rows)
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
    monkeypatch.setattr(likelihood_module, "FIT_LAYERS", 1)
    chosen, used = some_of(rows)
    assert len(chosen) == 1
    assert len(used) > 1
    assert math.isfinite(fit(layers, rows).solution.log_density)


def test_fitted_hyper_parameters_maximise_likelihood_times_priors() -> None:
    layers = some_layers(6, 8)
    rows = some_rows(layers, 15, 8)
    process = fit(layers, rows)
    likelihood = Likelihood(layers, rows, process.beta, process.scale)
    priors = np.array([*PRIORS, LENGTH, LENGTH])

    def density(theta: Array) -> float:
        off = (theta - np.log(priors[:, 0])) / priors[:, 1]
        return likelihood(theta)[0] - float(off @ off) / 2

    hyper = process.hyper
    scales = hyper.operation, hyper.kind, hyper.rough, hyper.noise, hyper.context
    best = np.log([*scales, *hyper.lengths[:2]])
    assert hyper.lengths[2] == LENGTH[0]  # it never varies, so nothing is known of it
    assert process.solution.log_density == pytest.approx(density(best))
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
