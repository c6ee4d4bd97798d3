"""Sizes that follow a width, and shapes made of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Tuple  # for Python 3.8, on old devices

from ampere.errors import DataError, ModelError

_SIZE = re.compile(
    r"(?:(?P<times>[1-9]\d{0,8})\*)?(?P<width>[^*/]{1,200})(?:/(?P<over>[1-9]\d{0,8}))?", re.ASCII
)


@dataclass(frozen=True)
class Size:
    """A size that follows a width: `times · width / over`."""

    width: str
    times: int = 1
    over: int = 1

    def at(self, widths: Mapping[str, int]) -> int:
        """The size at these widths; a width that does not divide evenly is refused."""
        size, rest = divmod(self.times * widths[self.width], self.over)
        if rest or size < 1:
            raise ModelError(f"{self} is not a whole size at {self.width}={widths[self.width]}")
        return size

    def step_to_meet(self, other: Size, multiple: int) -> int:
        """What our width must be a multiple of, so that `other`, the same size, has its own."""
        return Fraction(self.times * other.over, self.over * other.times * multiple).denominator

    def __str__(self) -> str:
        times = f"{self.times}*" if self.times != 1 else ""
        over = f"/{self.over}" if self.over != 1 else ""
        return f"{times}{self.width}{over}"

    @classmethod
    def parse(cls, text: str) -> Size:
        """Read back what `str` wrote: `in`, `25*in`, `out/4`, `3*out/4`."""
        match = _SIZE.fullmatch(text)
        if match is None:
            raise DataError(f"{text[:80]!r} is no size: write it as 3*out/4")
        return cls(match["width"], int(match["times"] or 1), int(match["over"] or 1))


@dataclass(frozen=True)
class SizePower:
    """A number that follows a size: d^-½ scales the product of attention."""

    size: Size
    exponent: float

    def at(self, widths: Mapping[str, int]) -> float:
        """The number at these widths."""
        return float(float(self.size.at(widths)) ** self.exponent)


MOST_SIZE = 10**9  # of a dimension
Shape = Tuple["int | Size", ...]


def shape_at(shape: Shape, widths: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with its symbolic sizes filled in."""
    return tuple(size.at(widths) if isinstance(size, Size) else size for size in shape)


def shape_to_json(shape: Shape) -> list[int | str]:
    """Plain data: a size that follows a width as text."""
    return [str(size) if isinstance(size, Size) else size for size in shape]


def shape_from_json(sizes: list[int | str]) -> Shape:
    """Read back what `shape_to_json` wrote."""
    return tuple(Size.parse(size) if isinstance(size, str) else _fixed(size) for size in sizes)


def _fixed(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MOST_SIZE:
        raise DataError(f"a size is a whole number from 0 to {MOST_SIZE}, not {size!r:.80}")
    return size


def steps_to_meet(
    steps: Mapping[str, int], side: Shape, other: Shape, multiples: Mapping[str, int]
) -> dict[str, int]:
    """Steps of the widths in `side`, raised until `other`, the same tensor, has its multiples."""
    raised = dict(steps)
    for mine, theirs in zip(side, other):
        if isinstance(mine, Size) and isinstance(theirs, Size):
            need = mine.step_to_meet(theirs, multiples[theirs.width])
            raised[mine.width] *= need // gcd(raised[mine.width], need)
    return raised
