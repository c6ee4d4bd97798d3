"""Relaxation: tables between their levels, as a smooth surface through them.

Along each axis it is a cubic between two levels, with the slopes that differences to the levels
above and below have (Catmull and Rom's): at a level its value is the table's own, its slope that
difference, and it has no kinks anywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.profiles.lookup import Table


class Surface(NamedTuple):
    """What candidates (m, k) have, and how it rises by a level of each axis."""

    values: Array  # (m,)
    slopes: Array  # (m, k)


class _Nodes(NamedTuple):
    """The four levels around each candidate on one axis, and what each counts there."""

    levels: Ints  # (4, m)
    weights: Array
    slopes: Array


def relax(tables: Sequence[Table], levels: Array, tops: Sequence[int]) -> Surface:
    """The sum of tables between levels.

    Args:
        tables: Each with an axis for some of the columns of `levels`.
        levels: Of candidates (m, k), from 1 to the top of their axis.
        tops: The highest level of each axis.
    """
    m, k = levels.shape
    nodes = [_nodes(levels[:, axis], top) for axis, top in enumerate(tops)]
    surface = Surface(np.zeros(m), np.zeros((m, k)))
    for table in tables:
        for corner in itertools.product(range(4), repeat=len(table.axes)):
            at = np.zeros((m, k), dtype=np.intp)
            for axis, number in zip(table.axes, corner, strict=True):
                at[:, axis] = nodes[axis].levels[number]
            values = table.at(at)
            weights = [nodes[a].weights[n] for a, n in zip(table.axes, corner, strict=True)]
            surface.values[:] += values * np.prod(weights, axis=0)
            for place, (axis, number) in enumerate(zip(table.axes, corner, strict=True)):
                others = [*weights[:place], *weights[place + 1 :], nodes[axis].slopes[number]]
                surface.slopes[:, axis] += values * np.prod(others, axis=0)
    return surface


def _nodes(x: Array, top: int) -> _Nodes:
    """Hermite's cubic on [i, i + 1], where slopes at its ends are differences of neighbours."""
    if top == 1:
        only = np.zeros((4, len(x)))
        first = only.copy()
        first[0] = 1.0
        return _Nodes(np.ones((4, len(x)), dtype=np.intp), first, only)
    i = np.clip(np.floor(x).astype(np.intp), 1, top - 1)
    below, above = np.maximum(i - 1, 1), np.minimum(i + 2, top)
    down, up = (i + 1 - below).astype(float), (above - i).astype(float)
    t = x - i
    ends = 3 * t**2 - 2 * t**3
    rise, fall = t**3 - 2 * t**2 + t, t**3 - t**2
    d_ends = 6 * t - 6 * t**2
    d_rise, d_fall = 3 * t**2 - 4 * t + 1, 3 * t**2 - 2 * t
    return _Nodes(
        np.array([below, i, i + 1, above]),
        np.array([-rise / down, 1 - ends - fall / up, ends + rise / down, fall / up]),
        np.array([-d_rise / down, -d_ends - d_fall / up, d_ends + d_rise / down, d_fall / up]),
    )
