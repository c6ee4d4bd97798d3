"""Widths: the sizes that a kind's process varies over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Mapping  # for Python 3.8, on old devices


class Widths(Mapping[str, int]):
    """Sizes by name, in any order: `in` and `out`, or `width` where they are tied."""

    __slots__ = ("_items",)

    def __init__(self, widths: Mapping[str, int] | Sequence[tuple[str, int]] = ()) -> None:
        self._items = tuple(sorted((str(k), int(v)) for k, v in dict(widths).items()))

    def __getitem__(self, name: str) -> int:
        for key, value in self._items:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Widths):  # of identities, thousands of which are compared
            return self._items == other._items
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return "Widths(" + ", ".join(f"{k}={v}" for k, v in self._items) + ")"
