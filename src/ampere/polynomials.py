"""Features of a kind as polynomials of its widths: FLOPs and bytes at any width, at once.

What a layer computes and moves grows with products of its widths, so a few counted sizes tell all
others exactly. A kind for which they do not (its features are no polynomial) is left alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ampere.layers import Features, Layer

Array = npt.NDArray[np.float64]
DEGREES = (1, 2)  # of each width


@dataclass(frozen=True, eq=False)
class FeaturePolynomial:
    """FLOPs, activation bytes and parameter bytes over widths."""

    names: tuple[str, ...]
    powers: tuple[tuple[int, ...], ...]
    scale: Array  # (d,)
    coefficients: Array  # (terms, 3)

    def at(self, widths: npt.ArrayLike) -> Array:
        """Features (m, 3) at widths (m, d), in the order of the names; they are whole numbers."""
        x = np.asarray(widths, float)
        return np.rint(_monomials(x / self.scale, self.powers) @ self.coefficients)

    def features(self, layer: Layer) -> Features:
        """The features of one layer of this kind."""
        widths = np.array([[layer.widths[name] for name in self.names]], float)
        return Features(*map(float, self.at(widths.reshape(1, len(self.names)))[0]))


def sample_sizes(widths: int) -> int:
    """How many distinct sizes along each width suffice, with some to check by."""
    return max(DEGREES) + 2 if widths else 1


def fit_features(layers: Sequence[Layer]) -> FeaturePolynomial | None:
    """The polynomial that these layers of one kind, all counted, lie on; None if on none."""
    names = tuple(layers[0].widths)
    x = np.array([[layer.widths[name] for name in names] for layer in layers], float)
    x = x.reshape(len(layers), len(names))
    y = np.array([[_known(value) for value in vars(layer.features).values()] for layer in layers])
    if not np.isfinite(y).all():
        return None
    scale = x.max(0, initial=1.0)
    for degree in DEGREES:
        powers = tuple(itertools.product(range(degree + 1), repeat=len(names)))
        design = _monomials(x / scale, powers)
        if np.linalg.matrix_rank(design) < len(powers) or len(x) <= len(powers) - (not names):
            continue
        coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
        found = FeaturePolynomial(names, powers, scale, coefficients)
        if np.allclose(found.at(x), y, rtol=1e-12, atol=0.5):  # beyond 2^53 nothing is exact
            return found
    return None


def _monomials(x: Array, powers: Sequence[tuple[int, ...]]) -> Array:
    exponents = np.array(powers, dtype=int).reshape(len(powers), x.shape[1])
    return np.asarray(np.prod(x[:, None, :] ** exponents, axis=2))


def _known(value: float | None) -> float:
    return math.nan if value is None else value
