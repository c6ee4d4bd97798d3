"""Light: matrices that are mostly zeros, multiplied as such where that is worth it. Arrays only.

A network has few of all the layers that were ever measured: of its shares (n, L) most are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ampere.core.arrays import Array

LARGE = 20_000  # entries, below which zeros are multiplied faster than left out
FILLED = 0.2  # share of them that may be filled


def light(matrix: Array) -> Any:
    """The same for `@` and `.T`: without its zeros, where these are most of a large matrix.

    The product with an array is an array either way.
    """
    if matrix.size < LARGE or np.count_nonzero(matrix) > FILLED * matrix.size:
        return matrix
    from scipy.sparse import csr_array  # slow to import, and small fits do without

    return csr_array(matrix)
