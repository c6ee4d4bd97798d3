"""Names of what varies in a layer: its widths, and other sizes as multiples of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from ampere.core.graph.borders import Borders
from ampere.core.graph.calls import GraphCall, Value
from ampere.core.graph.channels import Channels, Dim, Scaled, Sizes, free
from ampere.core.program.sizes import Size

NARROWEST = Fraction(1, 16)  # inner sizes down to this share of the width follow it
COARSEST = 32  # steps of a width that an inner size may ask for, unless there are many


@dataclass(frozen=True)
class Naming:
    """Names for the channels that a layer can vary; other sizes are multiples of them."""

    names: Mapping[Channels, Size] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)


def name_channels(
    sizes: Sizes, group: Sequence[GraphCall], borders: Borders, ranks: Set[Channels] = frozenset()
) -> Naming:
    """Names for what varies in a layer of these calls; `ranks` stay as they are if narrow."""
    entering = _free_roots(sizes, borders.entering)
    leaving = _free_roots(sizes, borders.leaving)
    units: dict[str, tuple[Channels, Fraction]] = {}  # width = unit × the size of the root
    for root, dim in entering.items():
        label = _numbered("width" if root in leaving else "in", units)
        # The width counts what really enters: twice the hidden size of a bidirectional LSTM.
        units[label] = (root, dim.factor)
    for root, dim in leaving.items():
        if root not in entering:
            units[_numbered("out", units)] = (root, dim.factor)
    names, multiples = {}, {}
    for label, (root, unit) in units.items():
        names[root] = Size(label, unit.denominator, unit.numerator)
        multiples[label] = (unit * root.multiple).numerator
    widths = {label: int(root.size * unit) for label, (root, unit) in units.items()}
    base = "out" if "out" in units else next(iter(units), None)
    for root in _roots_inside(sizes, group):
        if root in names or base is None:
            continue
        ratio = Fraction(root.size, widths[base])
        # ratio · width must be a multiple of what the root must be a multiple of
        step = lcm(multiples[base], (root.multiple / ratio).numerator)
        rounded = step > COARSEST and 2 * step > widths[base]
        if ratio < NARROWEST or rounded or (ratio < 1 and root in ranks):
            continue  # it stays as it is
        names[root] = Size(base, ratio.numerator, ratio.denominator)
        multiples[base] = step
    return Naming(names, widths, multiples)


def _numbered(label: str, taken: Mapping[str, object]) -> str:
    number = 1 + sum(1 for name in taken if name.rstrip("0123456789") == label)
    return label if number == 1 else f"{label}{number}"


def _free_roots(sizes: Sizes, values: Sequence[Value]) -> dict[Channels, Scaled]:
    roots: dict[Channels, Scaled] = {}
    for value in values:
        for dim in sizes.of(value):
            if isinstance(dim, Scaled) and free(dim):
                roots.setdefault(dim.root, dim)
    return roots


def _roots_inside(sizes: Sizes, group: Sequence[GraphCall]) -> dict[Channels, None]:
    roots: dict[Channels, None] = {}
    for call in group:
        dims: list[Dim] = []
        for argument in sizes.arguments.get(call.index, {}).values():
            dims.extend(argument if isinstance(argument, tuple) else (argument,))
        for path in call.outputs:
            dims.extend(sizes.of(Value(call.index, path)))
        roots.update((dim.root, None) for dim in dims if isinstance(dim, Scaled) and free(dim))
    return roots
