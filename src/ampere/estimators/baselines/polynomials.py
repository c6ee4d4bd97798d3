"""Features of a layer as polynomials of its sizes: FLOPs and bytes at any width, at once.

What a layer computes and moves grows with products of its widths, so a few counted sizes tell all
others exactly. A layer for which they do not (its features are no polynomial) is left alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ampere.core.arrays import Array

DEGREES = (1, 2)  # of each width


@dataclass(frozen=True, eq=False)
class FeaturePolynomial:
    """FLOPs, activation bytes and parameter bytes over sizes."""

    powers: tuple[tuple[int, ...], ...]
    scale: Array  # (d,)
    coefficients: Array  # (terms, 3)

    def at(self, sizes: Array) -> Array:
        """Features (m, 3) at sizes (m, d); they are whole numbers."""
        return np.rint(_monomials(sizes / self.scale, self.powers) @ self.coefficients)


# How many distinct values of each size suffice, with one to check by.
SAMPLES = max(DEGREES) + 2


def fit_features(sizes: Array, features: Array) -> FeaturePolynomial | None:
    """The polynomial that features (n, 3) counted at sizes (n, d) lie on; None if on none."""
    if not np.isfinite(features).all():
        return None
    scale = sizes.max(0, initial=1.0)
    for degree in DEGREES:
        powers = tuple(itertools.product(range(degree + 1), repeat=sizes.shape[1]))
        design = _monomials(sizes / scale, powers)
        if np.linalg.matrix_rank(design) < len(powers) or len(sizes) <= len(powers):
            continue
        coefficients = np.linalg.lstsq(design, features, rcond=None)[0]
        polynomial = FeaturePolynomial(powers, scale, np.asarray(coefficients, float))
        # Whole numbers, so exact; but beyond 2^53 none is.
        if np.allclose(polynomial.at(sizes), features, rtol=1e-12, atol=0.5):
            return polynomial
    return None


def _monomials(x: Array, powers: Sequence[tuple[int, ...]]) -> Array:
    exponents = np.array(powers, dtype=int).reshape(len(powers), x.shape[1])
    return np.asarray(np.prod(x[:, None, :] ** exponents, axis=2))
