"""Totals: rows as arrays, and what they share besides their layers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given

from ampere.estimators.processes.totals import besides, lasting, noise_var, together, walk
from random_rows import HYPER, conditioned, seeds, some_layers, some_rows
from random_rows import besides as by_definition


@given(seeds)
def test_what_rows_share_besides_their_layers_is_what_the_definition_says(seed: int) -> None:
    layers = some_layers(5, seed)
    rows = some_rows(layers, 6, seed)
    process = conditioned(layers, rows)
    size = np.exp(process.linear.log_size)
    np.testing.assert_allclose(besides(rows, size, HYPER), by_definition(rows, process), rtol=1e-9)


def test_a_walk_starts_at_depth_zero_and_shares_the_way() -> None:
    depths = np.array([0.0, 1.0, 3.0])
    np.testing.assert_allclose(walk(depths, depths), [[0.0, 0, 0], [0, 1, 1], [0, 1, 3]])


def test_a_slow_drift_is_shared_within_a_minute_and_unknown_times_share_none() -> None:
    rows = some_rows(some_layers(4, 0), 4, 0)
    shared = lasting(replace(rows, when=np.array([0.0, 30.0, 6000.0, math.nan])))
    assert shared[0, 1] > 100 * shared[0, 2]
    assert not shared[3].any()


def test_a_sitting_is_shared_by_those_that_say_so() -> None:
    rows = replace(some_rows(some_layers(4, 0), 4, 0), sitting=np.array([-1, 0, 0, -1]))
    assert together(rows).tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]


def test_rows_of_one_sitting_are_one_moment() -> None:
    rows = some_rows(some_layers(4, 0), 6, 0)
    for sitting, moments in (([-1] * 6, 6), ([0] * 6, 1), ([0, 0, 1, 1, -1, -1], 4)):
        assert replace(rows, sitting=np.array(sitting)).moments == moments


def test_small_totals_scatter_more_where_noise_fades() -> None:
    small, large = noise_var(np.array([0.01, 100.0]), replace(HYPER, fading=0.5))
    assert small == 100 * large
    assert np.ptp(noise_var(np.array([0.01, 100.0]), replace(HYPER, fading=0.0))) == 0
