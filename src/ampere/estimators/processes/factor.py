"""Factor: the inverse of a Cholesky factor, growing by a row at a time. Arrays only.

symbol        meaning                                                         shape
n             rows observed
C             covariance of what was observed, noise included                 (n, n)
L, whitener   L L' = C, and L⁻¹                                               (n, n)
alpha         C⁻¹ times what was observed                                     (n,)
precision     diagonal of C⁻¹                                                 (n,)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ampere.core.arrays import Array


@dataclass(frozen=True, eq=False)
class Factor:
    """L⁻¹ of a covariance: what conditioning on rows needs of them."""

    whitener: Array

    @classmethod
    def of(cls, covariance: Array) -> Factor:
        """The factor of a positive definite covariance."""
        return cls(np.linalg.inv(np.linalg.cholesky(covariance)))

    def __len__(self) -> int:
        return len(self.whitener)

    def whiten(self, cross: Array) -> Array:
        """Covariances with the rows (n, ...) in units in which the rows are independent."""
        return np.asarray(self.whitener @ cross)

    def solve(self, observed: Array) -> Array:
        """The rows' weights: alpha."""
        return np.asarray(self.whitener.T @ (self.whitener @ observed))

    @property
    def precision(self) -> Array:
        """The diagonal of C⁻¹ (Rasmussen and Williams, 2006, eq. 5.12)."""
        return np.asarray(np.square(self.whitener).sum(0))

    def grown(self, whitened: Array, var: float, least: float) -> Factor:
        """The factor with one more row, in O(n²).

        Args:
            whitened: Its covariance with the rows that are there, whitened.
            var: Its own variance, noise included.
            least: What the rows leave of that at the least, whatever rounding says: its noise.
        """
        last = 1 / np.sqrt(max(var - float(whitened @ whitened), least))
        n = len(self)
        whitener = np.zeros((n + 1, n + 1))
        whitener[:n, :n] = self.whitener
        whitener[n, :n] = -last * (whitened @ self.whitener)
        whitener[n, n] = last
        return Factor(whitener)
