"""Tables that are looked up by the sizes of a network's widths, many candidates at once.

A candidate is a row of levels: its widths, each as a multiple of its step. A table has an axis for
some of them, so levels are indices into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array, Ints

Axes = tuple[int, ...]
CHUNK = 1 << 15  # candidates at once: their look-ups stay in the cache


@dataclass(frozen=True, eq=False)
class Table:
    """Values for every level of some axes, which ascend; the last dimension may be a vector."""

    axes: Axes
    values: Array

    def at(self, levels: Ints) -> Array:
        """Look up candidates, given by their levels (m, k)."""
        if not self.axes:
            return np.asarray(self.values)
        index = levels[:, self.axes[0]]
        for axis, size in zip(self.axes[1:], self.values.shape[1:], strict=False):
            index = index * size + levels[:, axis]
        return np.asarray(np.take(self._flat, index, axis=0))

    @cached_property
    def _flat(self) -> Array:
        return self.values.reshape(-1, *self.values.shape[len(self.axes) :])

    def spread(self, axes: Axes) -> Array:
        """The values in the shape of a table with more axes."""
        sizes = dict(zip(self.axes, self.values.shape, strict=False))
        shape = (*(sizes.get(axis, 1) for axis in axes), *self.values.shape[len(self.axes) :])
        return np.asarray(self.values).reshape(shape)


def join(tables: Iterable[Table], how: Callable[..., Array]) -> list[Table]:
    """As few tables as give the same sum, or product: one joins another that has all its axes."""
    joined: dict[Axes, Array] = {}
    for table in sorted(tables, key=lambda table: -len(table.axes)):
        home = next((axes for axes in joined if set(table.axes) <= set(axes)), None)
        if home is None:
            joined[table.axes] = table.values
        else:
            joined[home] = how(joined[home], table.spread(home))
    return [Table(axes, np.ascontiguousarray(values)) for axes, values in joined.items()]


def add_up(tables: Sequence[Table], levels: Ints) -> Array:
    """The sum of what each table has for each candidate."""
    total = tables[0].at(levels)
    for table in tables[1:]:
        total = total + table.at(levels)
    return total


def in_chunks(levels: Ints, work: Callable[[Ints], Array]) -> Array:
    """One number for each candidate, some thousands of them at a time."""
    result = np.empty(len(levels))
    for start in range(0, len(levels), CHUNK):
        result[start : start + CHUNK] = work(levels[start : start + CHUNK])
    return result
