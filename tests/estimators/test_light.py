"""Light matrices: without their zeros they are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.estimators.processes import light as light_module
from ampere.estimators.processes.light import LARGE, light, weighed

COLUMNS = 400


def counts_of(rows: int, filled: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    counts = np.where(rng.random((rows, COLUMNS)) < filled, rng.integers(1, 4, (rows, COLUMNS)), 0)
    counts[:, 0] += 1  # no network without a layer
    return counts.astype(float)


@pytest.mark.parametrize(
    ("rows", "filled", "left_out"),
    [(LARGE // COLUMNS + 1, 0.02, True), (5, 0.02, False), (LARGE // COLUMNS + 1, 0.6, False)],
)
def test_zeros_are_left_out_of_large_matrices_that_are_mostly_zeros(
    rows: int, filled: float, left_out: bool
) -> None:
    counts = counts_of(rows, filled)
    assert isinstance(light(counts), np.ndarray) is not left_out


@given(st.integers(1, 12), st.integers(0, 1000))
def test_products_and_shares_are_those_of_the_array(rows: int, seed: int) -> None:
    counts = counts_of(rows, 0.05, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(light_module, "LARGE", 0)
        lighter = light(counts)
    assert not isinstance(lighter, np.ndarray)
    rng = np.random.default_rng(seed)
    cost, k = rng.uniform(0.1, 9.0, COLUMNS), rng.normal(size=(COLUMNS, COLUMNS))
    shares, total = weighed(counts, cost)
    light_shares, light_total = weighed(lighter, cost)
    np.testing.assert_allclose(light_total, total)
    np.testing.assert_allclose(light_shares.toarray(), shares)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    np.testing.assert_allclose(light_shares @ k @ light_shares.T, shares @ k @ shares.T, atol=1e-9)
    np.testing.assert_array_equal(lighter.toarray(), counts)  # as it was
