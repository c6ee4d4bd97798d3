"""Selection: so many rows that a fit of them ends."""

from __future__ import annotations

import numpy as np

from ampere.core.layers import LayerIdentity
from ampere.errors import DataError
from ampere.records.measurement import Measurement

MOST_ROWS, MOST_DISTINCT = 1000, 4000  # of a fit, whose time grows with the cube of both


def some_rows(rows: list[Measurement]) -> list[Measurement]:
    """All rows, or so many of them, drawn at random, that a fit ends and fits into memory.

    Raises:
        DataError: None of them has few enough layers.
    """
    order = np.random.default_rng(0).permutation(len(rows))
    chosen: list[int] = []
    layers: set[LayerIdentity] = set()
    for i in map(int, order):
        own = {layer.identity for layer in rows[i].layers}
        if len(chosen) < MOST_ROWS and len(layers | own) <= MOST_DISTINCT:
            chosen.append(i)
            layers |= own
    if rows and not chosen:
        raise DataError(f"more than {MOST_DISTINCT} different layers are too many for a fit")
    return [rows[i] for i in sorted(chosen)]
