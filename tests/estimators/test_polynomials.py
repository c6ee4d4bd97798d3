"""Features over widths: exact where they are polynomials, and not guessed where they are not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.arrays import Array
from ampere.estimators.baselines.polynomials import SAMPLES, FeaturePolynomial, fit_features

Counted = Callable[..., Sequence[float | None]]

coefficients = st.integers(0, 100)


def sampled(counted: Counted, widths: int, sizes: Sequence[int]) -> tuple[Array, Array]:
    every = list(itertools.product(sizes, repeat=widths))
    rows = [[math.nan if v is None else v for v in counted(*some)] for some in every]
    return np.array(every, float).reshape(len(every), widths), np.array(rows, float)


def found(counted: Counted, widths: int, sizes: Sequence[int]) -> FeaturePolynomial:
    polynomial = fit_features(*sampled(counted, widths, sizes))
    assert polynomial is not None
    return polynomial


def assert_exact(polynomial: FeaturePolynomial, counted: Counted, *sizes: int) -> None:
    assert polynomial.at(np.array([sizes], float)).tolist() == [list(map(float, counted(*sizes)))]


def conv(i: int, o: int) -> tuple[float, ...]:
    maps = 10 * 28 * 28
    return 6 * 9 * i * o * maps, 4 * (2 * i + 3 * o) * maps, 4 * (9 * i * o + o)


def attention(w: int) -> tuple[float, ...]:
    """Quadratic in its one width."""
    return 24 * w * w + 12 * 64 * w, 40 * w + 4096, 16 * w * w + 16 * w


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_a_convolution_is_bilinear(i: int, o: int) -> None:
    polynomial = found(conv, 2, [3, 8, 20])
    assert max(map(max, polynomial.powers)) == 1
    assert_exact(polynomial, conv, i, o)


@given(st.integers(1, 4096))
def test_tied_widths_are_quadratic(w: int) -> None:
    polynomial = found(attention, 1, [8, 16, 24, 64])
    assert max(map(max, polynomial.powers)) == 2
    assert_exact(polynomial, attention, w)


@given(st.lists(coefficients, min_size=27, max_size=27), st.integers(1, 512), st.integers(1, 512))
def test_any_polynomial_of_two_widths_is_found(terms: list[int], a: int, b: int) -> None:
    table = np.array(terms, dtype=object).reshape(3, 3, 3)

    def counted(a: int, b: int) -> tuple[float, ...]:
        powers = [[a**i * b**j for j in range(3)] for i in range(3)]
        return tuple(float((table[k] * np.array(powers, dtype=object)).sum()) for k in range(3))

    polynomial = found(counted, 2, [8, 64, 200, 512])
    (said,) = polynomial.at(np.array([[a, b]], float))
    assert list(said) == pytest.approx(list(counted(a, b)), rel=1e-9, abs=1)


def test_large_layers_are_counted_exactly() -> None:
    def large(i: int, o: int) -> tuple[float, ...]:
        return 6 * 9 * i * o * 256 * 56 * 56, 4 * (i + o) * 256 * 56 * 56, 36 * i * o

    assert_exact(found(large, 2, [16, 512, 1024, 2048]), large, 1999, 2011)


def test_many_sizes_at_once() -> None:
    polynomial = found(conv, 2, [2, 5, 9])
    np.testing.assert_array_equal(
        polynomial.at(np.array([[7.0, 4.0], [4.0, 7.0]])), [conv(7, 4), conv(4, 7)]
    )


@pytest.mark.parametrize(
    "counted",
    [
        lambda w: (w * math.ceil(w / 32), w, w),
        lambda w: (w, 100 * math.sqrt(w), w),
        lambda w: (w, w, w**3),
        lambda w: (w**4, w, w),
    ],
    ids=["stairs", "root", "cube", "fourth power"],
)
def test_what_is_no_polynomial_of_low_degree_is_left_alone(counted: Counted) -> None:
    assert fit_features(*sampled(counted, 1, [8, 16, 40, 64, 100])) is None


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_features_that_nobody_counted_are_left_alone(missing: int) -> None:
    def partly(w: int) -> tuple[float | None, ...]:
        return tuple(None if i == missing and w == 8 else 1.0 * w for i in range(3))

    assert fit_features(*sampled(partly, 1, [4, 16, 32])) is not None
    assert fit_features(*sampled(partly, 1, [4, 8, 16, 32])) is None


@pytest.mark.parametrize(
    ("counted", "widths", "sizes"),
    [
        (lambda w: (w, w, w), 1, [8]),
        (lambda w: (w, w, w), 1, [8, 16]),  # a line through two points, and none to check by
        (attention, 1, [8, 16, 24]),
        (conv, 2, [8, 16]),
    ],
)
def test_too_few_points_prove_nothing(counted: Counted, widths: int, sizes: list[int]) -> None:
    assert fit_features(*sampled(counted, widths, sizes)) is None
    assert fit_features(*sampled(counted, widths, [*sizes, 40])) is not None or len(sizes) == 1


def test_many_points_on_one_line_prove_nothing_of_the_plane() -> None:
    sizes = np.array([[w, w] for w in range(1, 30)], float)
    assert fit_features(sizes, np.array([conv(w, w) for w in range(1, 30)], float)) is None


@pytest.mark.parametrize(("counted", "widths"), [(conv, 2), (attention, 1)])
def test_so_many_samples_suffice(counted: Counted, widths: int) -> None:
    sizes = [8 * (n + 1) for n in range(SAMPLES)]
    assert fit_features(*sampled(counted, widths, sizes)) is not None
