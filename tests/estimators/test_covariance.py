"""Covariances: Matérn in all its spellings, and how alike layers are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import Matern

from ampere.estimators.processes.covariance import (
    KERNELS,
    covariance,
    matern52,
    scaled_distance,
    variance,
    varying,
)
from random_rows import HYPER, covariance_by_definition, seeds, some_layers


def test_operations_that_were_never_measured_are_each_like_themselves() -> None:
    """Two layers of one unknown kind are alike, and like nothing that is known."""
    known = some_layers(4, 0)
    strange = replace(
        known[:3],
        x=np.zeros((3, 3)),
        op=np.array([-5, -5, -6]),
        kind=np.array([-7, -7, -8]),
        id=np.array([1, 2, 3]),
    )
    assert not covariance(strange, known, HYPER).any()
    k = covariance(strange, strange, HYPER)
    shared = HYPER.operation**2 + HYPER.kind**2 + HYPER.short**2
    np.testing.assert_allclose(k[0], [shared + HYPER.rough**2, shared, 0.0])


def test_kinds_whose_flops_nobody_knows_have_levels_of_their_own() -> None:
    layers = replace(
        some_layers(3, 0),
        x=np.zeros((3, 3)),
        op=np.zeros(3, int),
        kind=np.array([0, 0, 1]),
        unsized=np.ones(3, bool),
    )
    sized = covariance(replace(layers, unsized=np.zeros(3, bool)), layers, HYPER)
    more = covariance(layers, layers, HYPER) - sized
    np.testing.assert_allclose(more, 9.0 * np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))


def test_a_known_operation_lends_to_a_new_kind_and_less_the_further_it_is() -> None:
    known = some_layers(1, 0)
    known = replace(known, x=np.zeros((1, 3)))
    kinds = [
        replace(known, x=np.array([[octaves, 0.0, 0.0]]), kind=np.array([-1]), id=np.array([-5]))
        for octaves in (0.0, 1.0, 3.0)
    ]
    shares = [float(covariance(kind, known, HYPER)[0, 0]) for kind in kinds]
    assert shares[0] == pytest.approx(HYPER.operation**2 + HYPER.short**2)
    assert shares[0] > shares[1] > shares[2] > 0


@given(seeds)
def test_layers_are_as_alike_as_the_definition_says(seed: int) -> None:
    ours, theirs = some_layers(6, seed), some_layers(5, seed, known=False)
    expected = covariance_by_definition(ours, theirs, HYPER)
    np.testing.assert_allclose(covariance(ours, theirs, HYPER), expected, rtol=1e-12)


@given(st.floats(0, 50), st.floats(0.05, 50))
def test_all_spellings_of_matern_agree(apart: float, length: float) -> None:
    """Over one coordinate, the distance as a whole and the product over coordinates are one."""
    r = scaled_distance(np.array([apart]), length)
    whole, _ = KERNELS["matern52"].shape(np.array([(apart / length) ** 2]))
    np.testing.assert_allclose(matern52(r), whole, rtol=1e-12)
    sklearn = Matern(length, nu=2.5)([[0.0]], [[apart]])[0, 0]
    assert float(matern52(r)[0]) == pytest.approx(sklearn, rel=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_slopes_are_those_of_the_covariance(name: str) -> None:
    q = np.linspace(0.1, 9.0, 40)
    shape = KERNELS[name].shape
    numeric = (shape(q + 1e-6)[0] - shape(q - 1e-6)[0]) / 2e-6
    np.testing.assert_allclose(shape(q)[1], numeric, rtol=1e-6)


@given(seeds, st.booleans())
def test_variances_are_covariances_with_oneself(seed: int, unsized: bool) -> None:
    layers = replace(some_layers(6, seed, known=False), unsized=np.full(6, unsized))
    k = covariance(layers, layers, HYPER)
    np.testing.assert_allclose(variance(layers, HYPER), k.diagonal())


def test_a_coordinate_counts_where_layers_differ_in_it() -> None:
    x = np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 5.0], [7.0, 3.0, 5.0]])
    assert varying(x[:2]).tolist() == [1]
    assert varying(x).tolist() == [0, 1]
