"""`ampere layers`: what a model is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ampere.cli.command import Command
from ampere.cli.options import AsJson, Model, TrainingOptions
from ampere.cli.shell import json_text
from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.layers import CHECKPOINTED
from ampere.core.page import table
from ampere.core.shown.layer_list import HEADERS, SIDES, described, flops_of, params_of, total_of
from ampere.core.types import Json

if TYPE_CHECKING:
    from ampere.core.layers import Layer
    from ampere.frameworks.readers import ModelReading


def layers(model: Model, training: TrainingOptions, as_json: AsJson = False) -> str:
    """Show the layers of a model.

    As ampere reads them, with their parameters and the FLOPs of a training step; layers that are
    the same stand in one line.
    """
    model = training.named(model)
    from ampere.core.training import Training
    from ampere.frameworks.models import read_whole

    reading = read_whole(model, training.input, training.over(Training()))
    if as_json:
        return json_text(
            {
                "params": params_of(reading.layers),
                "flops": flops_of(reading.layers),
                "unused": dict(reading.unused),
                "layers": [_row(layer) for layer in reading.layers],
            }
        )
    same = grouped(reading.layers, lambda layer: layer.identity)
    page = table(
        (*HEADERS, "frozen"),
        [(*described(group), _frozen(group[0])) for group in same],
        f"{SIDES}<",
        (*total_of(reading.layers), ""),
    )
    return "\n".join([page, *_notes(reading)])


def _row(layer: Layer) -> dict[str, Json]:
    return {
        **layer.to_json(),
        "params": layer.params,
        "flops": layer.features.flops,
        "frozen": _frozen(layer),
        "reads": [list(source) for source in layer.reads],
    }


def _notes(reading: ModelReading) -> list[str]:
    """What the table does not show: fixed layers, parameters of no layer, missing records."""
    notes = []
    again = [layer for layer in reading.layers if layer.kind.attributes.get(CHECKPOINTED)]
    if again:
        names = ", ".join(dict.fromkeys(layer.name for layer in again))
        notes.append(f"checkpointed, so that their forward pass runs twice: {names}")
    fixed = {layer.kind for layer in reading.layers if not layer.widths}
    if fixed:
        notes.append(
            f"fixed: {units.plural(len(fixed), 'kind')} that cannot be rebuilt at other widths;"
            " profiled as they stand"
        )
    if reading.unused:
        names = ", ".join(f"{name} ({size})" for name, size in reading.unused.items())
        notes.append(f"parameters that the forward pass does not use, in no layer: {names}")
    notes.extend(reading.unknown)
    return ["", *notes] if notes else []


def _frozen(layer: Layer) -> str:
    """Whether all of a layer's parameters are frozen, some, or none."""
    structure = layer.kind.structure
    if structure is None:
        return ""
    from ampere.frameworks.models import holds_parameters

    held = [call for call in structure.calls if holds_parameters(layer, call)]
    if held and all(call.frozen for call in held):
        return "frozen"
    partly = any(call.frozen or call.frozen_parts for call in held)
    return "partly" if partly else ""


LAYERS = Command(layers, "ampere layers 'zoo:cnn5(channels=[16,32,64,64])'")
