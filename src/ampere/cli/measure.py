"""`ampere measure`: meter a model itself."""

from __future__ import annotations

from contextlib import closing

from ampere.cli.command import Command
from ampere.cli.options import AsJson, Care, Machine, Model, TrainingOptions
from ampere.cli.shell import json_text
from ampere.core import units
from ampere.core.page import Page


def measure(
    model: Model,
    training: TrainingOptions,
    machine: Machine = Machine(),
    care: Care = Care(),
    as_json: AsJson = False,
) -> str:
    """Meter the training step of a model itself."""
    from ampere import _api
    from ampere.core.fingerprint import describe_device
    from ampere.core.training import Training

    with closing(machine.open()) as device:
        measurement = _api.measure(
            model,
            training.input,
            training=training.over(Training()),
            device=device,
            effort=care.effort(),
        )
        name = describe_device(device.fingerprint)
    if as_json:
        return json_text(
            {
                **measurement.to_json(),  # a row that `ampere tell` takes, with what it leaves out
                "idle_j_per_step": measurement.idle_j_per_step,
                "time_s_per_step": measurement.time_s_per_step,
                "spread": measurement.spread,
                "repeats": measurement.repeats,
                "device_name": name,
            }
        )
    page = Page(
        f"{model}: {units.joules(measurement.energy_j)} and"
        f" {units.seconds(measurement.time_s)} a training step",
        facts=[
            (
                "idle",
                f"{units.joules(measurement.idle_j_per_step or 0.0)} of it the device takes anyway",
            ),
            ("spread", f"{units.percent(measurement.spread)} over {measurement.repeats} bursts"),
            ("energy", f"joules are {measurement.provenance.origin}"),
            ("device", name),
            ("not in it", "data loading, validation"),
        ],
    )
    return page.text()


MEASURE = Command(measure, "ampere measure my_model.py:Net --input 3x32x32 --batch-size 32")
