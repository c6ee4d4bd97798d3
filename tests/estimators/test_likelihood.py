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
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.likelihood import (
    FADING,
    LENGTH,
    PRIORS,
    SCALES,
    Likelihood,
    maximise,
    some_of,
)
from ampere.estimators.processes.sum_process import Assumed, fit
from random_rows import HYPER, besides, conditioned, seeds, some_layers, some_rows
from random_rows import covariance_by_definition as covariance


def theta_of(hyper: Hyper, likelihood: Likelihood) -> Array:
    scales = np.log([getattr(hyper, name) for name in SCALES])
    lengths = np.log(np.array(hyper.lengths)[likelihood.varying])
    return np.array([*scales, hyper.fading, *lengths])


@given(seeds)
def test_likelihood_is_the_density_of_the_rows_and_its_gradient_is_right(seed: int) -> None:
    layers = some_layers(6, seed)
    rows = some_rows(layers, 8, seed)
    process = conditioned(layers, rows)
    at = process.linear
    likelihood = Likelihood(at)
    assert set(likelihood.varying) <= {0, 1}  # the third never varies, the others may not either
    theta = theta_of(HYPER, likelihood)
    value, gradient = likelihood(theta)

    total = at.shares @ covariance(layers, layers, HYPER) @ at.shares.T
    total += at.mean @ at.mean.T + HYPER.stairs**2 * at.steps @ at.steps.T
    total += HYPER.trait**2 * at.traits @ at.traits.T
    total += besides(rows, process)
    density = multivariate_normal.logpdf(at.z, cov=total)
    assert value == pytest.approx(density + len(rows) / 2 * math.log(2 * math.pi), rel=1e-8)

    steps = 1e-5 * np.eye(len(theta))
    numeric = [(likelihood(theta + s)[0] - likelihood(theta - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_likelihood_of_layers_that_differ_in_no_coordinate() -> None:
    layers = replace(some_layers(3, 0), x=np.ones((3, 2)))
    rows = some_rows(layers, 4, 0)
    likelihood = Likelihood(fit(layers, rows).linear)
    _, gradient = likelihood(theta_of(replace(HYPER, lengths=(1.0, 1.0)), likelihood))
    assert gradient.shape == (len(SCALES) + 1,)


def test_too_many_rows_and_layers_are_fitted_on_some_and_conditioned_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layers = some_layers(12, 6)
    counts = np.eye(12)[np.arange(60) % 12] + np.eye(12)[np.arange(60) // 5]
    rows = replace(some_rows(layers, 60, 6), counts=counts)
    rows = replace(rows, y=counts @ layers.features @ [1.0, 2.0, 0.5])
    monkeypatch.setattr(likelihood_module, "FIT_ROWS", 20)
    assert len(set(some_of(rows)[0])) == 20
    chosen, used = some_of(rows, most_layers=8)
    assert 1 < len(chosen) < 20
    assert 1 < len(used) <= 8
    assert not np.delete(rows.counts[chosen], used, axis=1).any()
    process = fit(layers, rows, Assumed(most_layers=8))
    assert len(process.rows) == len(process.alpha) == 60
    assert len(process.layers) == 12
    mean, _ = process.predict(layers, rows.counts, rows.context)
    np.testing.assert_allclose(mean, rows.y, rtol=0.03)


def test_a_network_of_too_many_layers_is_still_fitted_on() -> None:
    layers = some_layers(6, 0)
    rows = some_rows(layers, 3, 0)
    chosen, used = some_of(rows, most_layers=1)
    assert len(chosen) == 1
    assert len(used) > 1
    assert math.isfinite(fit(layers, rows, Assumed(most_layers=1)).solution.log_density)


def test_hyper_parameters_maximise_likelihood_times_priors() -> None:
    layers = some_layers(6, 8)
    at = conditioned(layers, some_rows(layers, 15, 8)).linear
    likelihood = Likelihood(at)
    hyper, log_density = maximise(at, HYPER)
    priors = np.array([*PRIORS.values(), LENGTH, LENGTH])
    median = np.insert(np.log(priors[:, 0]), len(SCALES), 0.0)
    spread = np.insert(priors[:, 1], len(SCALES), FADING)

    def density(theta: Array) -> float:
        off = (theta - median) / spread
        return likelihood(theta)[0] - float(off @ off) / 2

    best = theta_of(hyper, likelihood)
    assert hyper.lengths[2] == HYPER.lengths[2]  # it never varies, so nothing is known of it
    assert log_density == pytest.approx(density(best))
    for step in 0.1 * np.vstack([np.eye(len(best)), -np.eye(len(best))]):
        if best[len(SCALES)] + step[len(SCALES)] >= 0:
            assert density(best) > density(best + step)


def test_fitted_noise_is_that_of_the_rows() -> None:
    layers = some_layers(5, 9)
    quiet, loud = (
        fit(layers, replace(some_rows(layers, 40, 9, noise), known_std=np.zeros(40)))
        for noise in (0.005, 0.2)
    )
    assert quiet.hyper.noise < 0.02
    assert 0.12 < loud.hyper.noise < 0.3


def test_noise_that_falls_with_the_size_is_noticed() -> None:
    layers = some_layers(30, 9)
    rows = some_rows(layers, 150, 9, noise=0.0)
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(-2, 2, 150)
    y = rows.y * size * np.exp(0.05 * rng.normal(size=150) * size**-0.25)
    scaled = replace(rows, counts=rows.counts * size[:, None], y=y, known_std=np.zeros(150))
    assert 0.25 < fit(layers, scaled).hyper.fading < 0.75
