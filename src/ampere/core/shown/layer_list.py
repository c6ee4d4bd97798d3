"""A list of layers, as a model is read: a tuple that shows itself as a table."""

from __future__ import annotations

from collections.abc import Sequence

from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.layers import Layer
from ampere.core.page import Page

HEADERS = ("layer", "role", "operation", "widths", "parameters", "a step")
SIDES = "<<<<>>"


class Layers(tuple[Layer, ...]):
    """The layers of a model. To everybody but a reader it is a tuple of them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        same = grouped(self, lambda layer: layer.identity)
        whole = flops_of(self)
        return Page(
            f"{units.plural(len(self), 'layer')}, {units.plural(len(same), 'different one')}",
            headers=HEADERS,
            rows=[described(group) for group in same],
            align=SIDES,
            total=total_of(self),
            bars={"a step": [flops_of(group) / whole if whole else None for group in same]},
        )


def described(same: Sequence[Layer]) -> tuple[str, ...]:
    """Layers that are the same in one line: what they are, and what they hold and compute."""
    first, count = same[0], sum(layer.count for layer in same)
    return (
        units.times(first.name, count),
        first.kind.role.value,
        first.kind.operation,
        " ".join(f"{name}={width}" for name, width in first.widths.items()) or "fixed",
        units.number(params_of(same)),
        units.flops(flops_of(same)),
    )


def total_of(layers: Sequence[Layer]) -> tuple[str, ...]:
    """The last line of such a table."""
    return "total", "", "", "", units.number(params_of(layers)), units.flops(flops_of(layers))


def params_of(layers: Sequence[Layer]) -> int:
    """How many parameters they hold, as far as that is known."""
    return sum(layer.count * (layer.params or 0) for layer in layers)


def flops_of(layers: Sequence[Layer]) -> float:
    """FLOPs of a training step, as far as they are known."""
    return sum(layer.count * (layer.features.flops or 0.0) for layer in layers)
