"""Sizes that vary in proportion: the one union-find, with ratios, that ties them.

scipy's `DisjointSet` knows no ratios, and takes 0.4 s to import.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

Own = TypeVar("Own", bound="Proportional")


class Proportional:
    """A size that others can be tied to; tied sizes share one root."""

    def __init__(self) -> None:
        self._above: tuple[Proportional, Fraction] | None = None

    def find(self: Own) -> tuple[Own, Fraction]:
        """The root of this size, and the size as a multiple of it."""
        root, ratio = self, Fraction(1)
        while root._above is not None:
            above, share = root._above
            root, ratio = above, ratio * share  # type: ignore[assignment]
        if root is not self:
            self._above = (root, ratio)  # the way is short the next time
        return root, ratio

    def tie(self: Own, other: Own, ratio: Fraction) -> bool:
        """From now on `other` is `ratio` times this; False if both are tied in another way."""
        (ours, times_ours), (theirs, times_theirs) = self.find(), other.find()
        if ours is theirs:
            return times_theirs == ratio * times_ours
        theirs._above = (ours, ratio * times_ours / times_theirs)
        return True
