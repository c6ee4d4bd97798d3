"""`ampere layers`: what a model is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ampere import tables
from ampere.cli.options import AsJson, Model, Training
from ampere.cli.shell import json_text
from ampere.layers import Json

if TYPE_CHECKING:
    from ampere.layers import Layer


def layers(model: Model, training: Training, as_json: AsJson = False) -> str:
    """Show the layers of a model.

    As ampere reads them, with their parameters and the FLOPs of a training step; layers that are
    the same stand in one line.
    """
    from ampere.frameworks.torch import read

    found = read(model, **training.given())
    params = sum(layer.count * (layer.params or 0) for layer in found)
    flops = sum(layer.count * (layer.features.flops or 0.0) for layer in found)
    if as_json:
        return json_text(
            {"params": params, "flops": flops, "layers": [_row(each) for each in found]}
        )
    same = tables.grouped(found, lambda layer: (layer.kind.name, layer.widths))
    return tables.table(
        ("layer", "role", "operation", "widths", "parameters", "a step", "frozen"),
        [_line(group) for group in same],
        "<<<<>><",
        ("total", "", "", "", tables.number(params), tables.flops(flops), ""),
    )


def _row(layer: Layer) -> dict[str, Json]:
    return {
        **layer.to_json(),
        "params": layer.params,
        "flops": layer.features.flops,
        "frozen": _frozen(layer),
    }


def _line(same: Sequence[Layer]) -> tuple[str, ...]:
    first, count = same[0], sum(layer.count for layer in same)
    return (
        tables.times(first.name, count),
        first.kind.role.value,
        first.kind.operation,
        " ".join(f"{name}={width}" for name, width in first.widths.items()),
        tables.number(count * (first.params or 0)),
        tables.flops(count * (first.features.flops or 0.0)),
        "frozen" if _frozen(first) else "",
    )


def _frozen(layer: Layer) -> bool:
    structure = layer.kind.structure
    return structure is not None and any(call.frozen for call in structure.calls)
