"""Light: matrices that are mostly zeros, multiplied as such where that is worth it. Arrays only.

A network has few of all the layers that were ever measured: of its counts and shares (n, L) most
are 0. Such a matrix is an array, or scipy's sparse one if it is large; `@` and `.T` are the same.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ampere.core.arrays import Array, Ints

LARGE = 20_000  # entries, below which zeros are multiplied faster than left out
FILLED = 0.2  # share of them that may be filled

Light: TypeAlias = Any  # an array, or scipy.sparse.csr_array


def light(matrix: Array) -> Light:
    """A matrix without its zeros, where these are most of a large one."""
    if matrix.size < LARGE or np.count_nonzero(matrix) > FILLED * matrix.size:
        return matrix
    from scipy.sparse import csr_array  # slow to import, and small fits do without

    return csr_array(matrix)


def gathered(matrix: Light, which: Ints, many: int) -> Light:
    """Columns added up, each into the one of `many` that it belongs to."""
    if isinstance(matrix, np.ndarray):
        columns = np.zeros((many, len(matrix)))
        np.add.at(columns, which, matrix.T)
        return columns.T
    from scipy.sparse import csr_array

    into = csr_array((np.ones(len(which)), (np.arange(len(which)), which)), (len(which), many))
    return matrix @ into


def filled(matrix: Light) -> Array:
    """A matrix with its zeros."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.todense())


def weighed(counts: Light, cost: Array) -> tuple[Light, Array]:
    """Shares of layers that cost this much in networks that have so many, and what these cost."""
    total = np.asarray(counts @ cost)
    if isinstance(counts, np.ndarray):
        return counts * cost / total[:, None], total
    shares = counts.copy()
    shares.data = counts.data * cost[counts.indices] / np.repeat(total, np.diff(counts.indptr))
    return shares, total
