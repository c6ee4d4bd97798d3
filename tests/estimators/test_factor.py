"""Factors: the inverse of a Cholesky factor, as it is made and as it grows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.arrays import Array
from ampere.estimators.processes.factor import Factor


def some_covariance(n: int, seed: int) -> Array:
    root = np.random.default_rng(seed).normal(size=(n, n))
    return np.asarray(root @ root.T + 0.1 * np.eye(n))


@given(st.integers(1, 12), st.integers(0, 1000))
def test_it_solves_and_knows_the_precision(n: int, seed: int) -> None:
    covariance = some_covariance(n, seed)
    factor = Factor.of(covariance)
    observed = np.arange(1.0, n + 1)
    inverse = np.linalg.inv(covariance)
    np.testing.assert_allclose(factor.solve(observed), inverse @ observed, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(factor.precision, inverse.diagonal(), rtol=1e-6)
    whitened = factor.whiten(covariance)
    np.testing.assert_allclose(factor.whiten(whitened.T), np.eye(n), atol=1e-7)


@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 1000))
def test_grown_row_by_row_it_is_that_of_the_whole(n: int, more: int, seed: int) -> None:
    covariance = some_covariance(n + more, seed)
    factor = Factor.of(covariance[:n, :n])
    for last in range(n, n + more):
        whitened = factor.whiten(covariance[:last, last])
        factor = factor.grown(whitened, covariance[last, last], least=0.0)
    assert len(factor) == n + more
    whole = Factor.of(covariance).whitener
    np.testing.assert_allclose(factor.whitener, whole, atol=1e-7 * np.abs(whole).max())


def test_a_row_that_the_others_tell_entirely_keeps_its_noise() -> None:
    factor = Factor.of(np.eye(2))
    grown = factor.grown(np.array([1.0, 0.0]), 1.0, least=0.25)
    assert grown.whitener[2, 2] == 2.0
