"""`ampere measure`: meter a model itself."""

from __future__ import annotations

from contextlib import closing

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
    from ampere.core.training import Training
    from ampere.profiles.profile import describe_device

    with closing(machine.open()) as device:
        found = _api.measure(
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
                **found.to_json(),  # a row that `ampere tell` takes, with what it leaves out
                "idle_j_per_step": found.idle_j_per_step,
                "time_s_per_step": found.time_s_per_step,
                "spread": found.spread,
                "repeats": found.repeats,
                "device_name": name,
            }
        )
    page = Page(
        f"{model}: {units.joules(found.energy_j_per_step)} and"
        f" {units.seconds(found.time_s_per_step)} a training step",
        facts=[
            (
                "idle",
                f"{units.joules(found.idle_j_per_step or 0.0)} of it the device takes anyway",
            ),
            ("spread", f"{units.percent(found.spread)} over {found.repeats} bursts"),
            ("energy", f"joules are {found.provenance.origin}"),
            ("device", name),
            ("not in it", "data loading, validation"),
        ],
    )
    return page.text()
