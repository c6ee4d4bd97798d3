"""Totals: rows as arrays, and what they share besides their layers."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given

from ampere.estimators.processes.linear_mean import expand
from ampere.estimators.processes.totals import drift, terms, walk
from random_rows import HYPER, OPERATIONS, seeds, some_layers, some_rows
from random_rows import drift as drift_by_definition


@given(seeds)
def test_terms_are_relative_to_the_scale(seed: int) -> None:
    layers = some_layers(5, seed)
    rows = some_rows(layers, 6, seed)
    beta = np.arange(1.0, 3 * OPERATIONS + 4).reshape(OPERATIONS + 1, 3)
    w, p, m = terms(layers, rows, beta, rows.y)
    for i, counts in enumerate(rows.counts):
        costs = [counts[j] * expand(layers, beta)[j].sum() for j in range(5)]
        np.testing.assert_allclose(w[i] * rows.y[i], costs)
        assert math.isclose(m[i] * rows.y[i], sum(costs))
        np.testing.assert_allclose(p[i] * rows.y[i], counts @ expand(layers, beta))


def test_rows_join_with_room_for_new_layers() -> None:
    layers = some_layers(6, 0)
    rows = some_rows(layers, 5, 0)
    few = type(rows)(**{**vars(rows[:3]), "counts": rows.counts[:3, :4]})
    joined = few.joined(rows[3:])
    assert len(joined) == 5
    np.testing.assert_array_equal(joined.counts[:3, :4], rows.counts[:3, :4])
    assert not joined.counts[:3, 4:].any()
    np.testing.assert_array_equal(joined.counts[3:], rows.counts[3:])
    for name in ("y", "known_std", "context", "when"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(rows, name))


def test_a_walk_starts_at_context_zero_and_shares_the_way() -> None:
    contexts = np.array([0.0, 1.0, 3.0])
    expected = HYPER.context**2 * np.array([[0.0, 0, 0], [0, 1, 1], [0, 1, 3]])
    np.testing.assert_allclose(walk(contexts, contexts, HYPER), expected)


def test_drift_is_shared_within_a_minute_and_unknown_times_share_none() -> None:
    when = np.array([0.0, 30.0, 6000.0, math.nan])
    shared = drift(when, when)
    np.testing.assert_allclose(shared, drift_by_definition(when))
    assert shared[0, 1] > 100 * shared[0, 2]
    assert not shared[3].any()
