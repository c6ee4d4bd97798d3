"""Scopes: how sizes and values are written inside one layer, whoever traced its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Channels, Dim, free
from ampere.core.graph.naming import Naming
from ampere.core.program.sizes import Size
from ampere.core.program.terms import Term, ValueRef


class Scope:
    """One layer's names of channels, numbers of calls, and values that come in from outside."""

    def __init__(
        self,
        names: Mapping[Channels, Size],
        numbers: Mapping[int, int],
        entering: Sequence[Value],
    ) -> None:
        self.names, self.numbers = names, numbers
        self.entering = {value: i for i, value in enumerate(entering)}

    def size(self, dim: Dim) -> int | Size:
        """A dimension: a number, or a multiple of a width."""
        if isinstance(dim, int):
            return dim
        name = self.names.get(dim.root)
        if name is None or not free(dim):
            return dim.size
        ratio = Fraction(name.times, name.over) * dim.factor
        return Size(name.width, ratio.numerator, ratio.denominator)

    def sized(self, dims: Mapping[str, Dim | tuple[Dim, ...]]) -> dict[str, Term]:
        """Arguments that are dimensions, or several of them."""
        return {
            name: tuple(map(self.size, dim)) if isinstance(dim, tuple) else self.size(dim)
            for name, dim in dims.items()
        }

    def value(self, value: Value) -> ValueRef:
        """What a call gives, or what comes in."""
        if value not in self.entering:
            return ValueRef(self.numbers[value.call], value.path)
        several = len(self.entering) > 1
        return ValueRef(0, (self.entering[value],) if several else ())


def settle(naming: Naming) -> None:
    """What a layer asks of a width (its heads) holds for all layers that it is tied to."""
    for root, size in naming.names.items():
        if size.width in naming.multiples:
            ratio = Fraction(size.times, size.over)
            root.require((ratio * naming.multiples[size.width]).numerator)


def with_tuples(tree: Any) -> Any:
    """A tree with tuples in the place of lists, and texts in that of other names."""
    if isinstance(tree, list | tuple):
        return tuple(map(with_tuples, tree))
    if isinstance(tree, dict):
        return {str(name): with_tuples(part) for name, part in tree.items()}
    return tree
