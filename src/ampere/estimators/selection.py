"""Selection: so many rows that a fit of them ends; as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import LayerIdentity
from ampere.errors import DataError
from ampere.estimators.encoding.contexts import contexts_of
from ampere.estimators.processes.totals import Rows
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


def arrays_of(rows: Sequence[Measurement], counts: Array, values: Sequence[float]) -> Rows:
    """Measurements as arrays, with their joules or their seconds as values."""
    numbers = {name: i for i, name in enumerate(sorted({row.sitting for row in rows} - {""}))}
    return Rows(
        counts=counts,
        y=np.array(values),
        known_std=np.array([row.error for row in rows]),
        context=contexts_of([row.layers for row in rows]),
        when=np.array([row.timestamp for row in rows]),
        sitting=np.array([numbers.get(row.sitting, -1) for row in rows], int),
    )
