"""The linear mean: coefficients of least relative errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ampere.estimators.processes import linear_mean
from ampere.estimators.processes.linear_mean import expand
from random_rows import FEATURES, OPERATIONS, seeds, some_layers, some_rows


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
    for i, op in enumerate(np.maximum(layers.op, -1)):
        np.testing.assert_array_equal(parts[i, op], layers.features[i] * beta[op])
        assert not np.delete(parts[i], op, axis=0).any()
    np.testing.assert_array_equal(parts[3, 2], layers.features[3] * beta[2])
