"""`ampere measure`: meter a model itself."""

from __future__ import annotations

from contextlib import closing

from ampere.cli.command import Command
from ampere.cli.options import AsJson, Care, Machine, Model, Sittings, TrainingOptions
from ampere.cli.shell import json_text


def measure(
    model: Model,
    training: TrainingOptions,
    machine: Machine = Machine(),
    care: Care = Care(),
    again: Sittings = Sittings(),
    as_json: AsJson = False,
) -> str:
    """Meter the training step of a model itself."""
    from ampere import _api
    from ampere.core.training import Training

    with closing(machine.open()) as device:
        measured = _api.measure(
            training.named(model),
            training.input,
            training=training.over(Training()),
            device=device,
            effort=care.effort(),
            sittings=again.sittings,
            pause_s=again.pause,
        )
    return json_text(measured.to_json()) if as_json else repr(measured)


MEASURE = Command(measure, "ampere measure my_model.py:Net --input 3x32x32 --batch-size 32")
