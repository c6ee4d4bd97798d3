"""Sizes that vary together: sets of channels, and dimensions that are multiples of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

from ampere.core.graph.calls import Value
from ampere.core.program.proportions import Proportional


class Channels(Proportional):
    """A set of sizes that change together; joined sets share one root, which decides for all."""

    def __init__(self, size: int, named: bool = True) -> None:
        super().__init__()
        self.size = size
        self.pinned = False
        self.named = named  # made by a layer; sizes of plain tensors only follow others
        self.multiple = 1

    def join(self, other: Channels) -> None:
        """From now on both sets grow and shrink in proportion."""
        ours, theirs = self.find()[0], other.find()[0]
        if ours is theirs:
            return
        ratio = Fraction(theirs.size, ours.size)
        ours.pinned = ours.pinned or theirs.pinned
        ours.named = ours.named or theirs.named
        ours.require((theirs.multiple / ratio).numerator)
        ours.tie(theirs, ratio)

    def require(self, multiple: int) -> None:
        """The size stays a multiple of this."""
        self.multiple = lcm(self.multiple, multiple)


@dataclass(frozen=True)
class Scaled:
    """A dimension that is `times` the size of its channels: 25 after a 5×5 map was flattened."""

    channels: Channels
    times: Fraction = Fraction(1)

    @property
    def root(self) -> Channels:
        """The set that decides its size."""
        return self.channels.find()[0]

    @property
    def factor(self) -> Fraction:
        """How many times the root's size it is."""
        return self.times * self.channels.find()[1]

    @property
    def size(self) -> int:
        """Its size in the traced model."""
        return int(self.channels.size * self.times)

    def at(self, sizes: Mapping[Channels, int]) -> int:
        """Its size where some roots have other sizes; refused if it is no whole number."""
        root, ratio = self.channels.find()
        size = self.times * ratio * sizes.get(root, root.size)
        if size.denominator != 1:
            raise ValueError("no whole size")
        return int(size)


@dataclass(frozen=True)
class Power:
    """A number that follows a size, such as the 1/√d of attention."""

    dim: Scaled
    exponent: float


Dim = int | Scaled
Dims = tuple[Dim, ...]


@dataclass
class Sizes:
    """The dimensions of every value, the size-like arguments of every module and function."""

    dims: dict[Value, Dims] = field(default_factory=dict)
    arguments: dict[int, dict[str, Dim | Dims]] = field(default_factory=dict)
    templates: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # args and kwargs

    def of(self, value: Any) -> Dims:
        """The dimensions of a value."""
        return self.dims[value]


def new(size: int, named: bool = True) -> Scaled:
    """A dimension that starts a set of channels."""
    return Scaled(Channels(size, named))


def free(dim: Any) -> bool:
    """Whether a dimension can vary."""
    return isinstance(dim, Scaled) and not dim.root.pinned


def pin(dims: Sequence[Dim]) -> None:
    """These dimensions keep the size they have."""
    for dim in dims:
        if isinstance(dim, Scaled):
            dim.root.pinned = True


def same(a: Dim, b: Dim) -> Dim:
    """Two dimensions that must be equal."""
    if isinstance(a, Scaled) and isinstance(b, Scaled) and a.size == b.size:
        a.channels.join(b.channels)
        if a.factor != b.factor:
            pin((a,))
        return a
    pin((a, b))
    return a if isinstance(a, int) else b


def scale(dim: Dim, factor: Fraction) -> Dim:
    """A dimension multiplied by a factor."""
    if isinstance(dim, Scaled):
        return Scaled(dim.channels, dim.times * factor)
    return int(dim * factor)


def must_divide(dim: Dim, by: int) -> None:
    """This dimension stays a multiple of a number, such as attention heads."""
    if isinstance(dim, Scaled):
        dim.root.require((by / dim.factor).numerator)
