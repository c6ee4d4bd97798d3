"""Features over widths: exact where they are polynomials, and not guessed where they are not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.layers import Features, Layer, Widths
from ampere.polynomials import FeaturePolynomial, fit_features, sample_sizes
from fakes import HIDDEN

Counted = Callable[..., Sequence[float | None]]

coefficients = st.integers(0, 100)


def layer(counted: Counted, **widths: int) -> Layer:
    return Layer("layer", HIDDEN, Widths(widths), Features(*counted(**widths)))


def sampled(counted: Counted, names: str, sizes: Sequence[int]) -> list[Layer]:
    every = itertools.product(sizes, repeat=len(names))
    return [layer(counted, **dict(zip(names, some, strict=True))) for some in every]


def found(counted: Counted, names: str, sizes: Sequence[int]) -> FeaturePolynomial:
    polynomial = fit_features(sampled(counted, names, sizes))
    assert polynomial is not None
    return polynomial


def assert_exact(polynomial: FeaturePolynomial, counted: Counted, **widths: int) -> None:
    asked = Layer("asked", HIDDEN, Widths(widths))
    assert polynomial.features(asked) == Features(*map(float, counted(**widths)))  # type: ignore[arg-type]


def conv(i: int, o: int) -> tuple[float, ...]:
    maps = 10 * 28 * 28
    return 6 * 9 * i * o * maps, 4 * (2 * i + 3 * o) * maps, 4 * (9 * i * o + o)


def attention(w: int) -> tuple[float, ...]:
    """Quadratic in its one width."""
    return 24 * w * w + 12 * 64 * w, 40 * w + 4096, 16 * w * w + 16 * w


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_a_convolution_is_bilinear(i: int, o: int) -> None:
    polynomial = found(conv, "io", [3, 8, 20])
    assert max(map(max, polynomial.powers)) == 1
    assert_exact(polynomial, conv, i=i, o=o)


@given(st.integers(1, 4096))
def test_tied_widths_are_quadratic(w: int) -> None:
    polynomial = found(attention, "w", [8, 16, 24, 64])
    assert max(map(max, polynomial.powers)) == 2
    assert_exact(polynomial, attention, w=w)


@given(st.lists(coefficients, min_size=27, max_size=27), st.integers(1, 512), st.integers(1, 512))
def test_any_polynomial_of_two_widths_is_found(terms: list[int], a: int, b: int) -> None:
    table = np.array(terms, dtype=object).reshape(3, 3, 3)

    def counted(a: int, b: int) -> tuple[float, ...]:
        powers = [[a**i * b**j for j in range(3)] for i in range(3)]
        return tuple(float((table[k] * np.array(powers, dtype=object)).sum()) for k in range(3))

    polynomial = found(counted, "ab", [8, 64, 200, 512])
    for expected, said in zip(counted(a, b), polynomial.at([[a, b]])[0], strict=True):
        assert said == pytest.approx(expected, rel=1e-9, abs=1)


def test_large_layers_are_counted_exactly() -> None:
    def large(i: int, o: int) -> tuple[float, ...]:
        return 6 * 9 * i * o * 256 * 56 * 56, 4 * (i + o) * 256 * 56 * 56, 36 * i * o

    assert_exact(found(large, "io", [16, 512, 1024, 2048]), large, i=1999, o=2011)


def test_many_sizes_at_once_are_in_the_order_of_the_names() -> None:
    polynomial = found(conv, "io", [2, 5, 9])
    assert polynomial.names == ("i", "o")
    np.testing.assert_array_equal(polynomial.at([[7, 4], [4, 7]]), [conv(7, 4), conv(4, 7)])


def test_a_kind_without_widths_is_a_constant() -> None:
    polynomial = found(lambda: (5.0, 6.0, 7.0), "", [])
    assert_exact(polynomial, lambda: (5.0, 6.0, 7.0))
    two = [layer(lambda: (5.0, 6.0, 7.0)), layer(lambda: (5.0, 6.0, 8.0))]
    assert fit_features(two) is None


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
    assert fit_features(sampled(counted, "w", [8, 16, 40, 64, 100])) is None


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_features_that_nobody_counted_are_left_alone(missing: int) -> None:
    def partly(w: int) -> tuple[float | None, ...]:
        return tuple(None if i == missing and w == 8 else 1.0 * w for i in range(3))

    assert fit_features(sampled(partly, "w", [4, 16, 32])) is not None
    assert fit_features(sampled(partly, "w", [4, 8, 16, 32])) is None


@pytest.mark.parametrize(
    ("counted", "names", "sizes"),
    [
        (lambda w: (w, w, w), "w", [8]),
        (lambda w: (w, w, w), "w", [8, 16]),  # a line through two points, and none to check by
        (attention, "w", [8, 16, 24]),
        (conv, "io", [8, 16]),
    ],
)
def test_too_few_points_prove_nothing(counted: Counted, names: str, sizes: list[int]) -> None:
    assert fit_features(sampled(counted, names, sizes)) is None
    assert fit_features(sampled(counted, names, [*sizes, 40])) is not None or len(sizes) == 1


def test_many_points_on_one_line_prove_nothing_of_the_plane() -> None:
    assert fit_features([layer(conv, i=w, o=w) for w in range(1, 30)]) is None


@pytest.mark.parametrize(("counted", "names"), [(conv, "io"), (attention, "w")])
def test_sample_sizes_suffice(counted: Counted, names: str) -> None:
    sizes = [8 * (n + 1) for n in range(sample_sizes(len(names)))]
    assert fit_features(sampled(counted, names, sizes)) is not None
    assert sample_sizes(0) == 1
