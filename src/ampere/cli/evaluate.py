"""`ampere evaluate`: compare estimates with metered models."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import (
    MANY,
    SEEDS,
    AsJson,
    Care,
    Machine,
    MixDevices,
    Model,
    ProfilePath,
    TrainingOptions,
    at_most,
)
from ampere.cli.progress import progress
from ampere.cli.shell import Interrupted, json_text


def evaluate(
    model: Model,
    path: ProfilePath,
    training: TrainingOptions,
    models: Annotated[
        int, typer.Option(min=1, metavar="N", help="Unseen models.", callback=at_most(MANY))
    ] = 30,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Draws other models.", callback=at_most(SEEDS))
    ] = 0,
    machine: Machine = Machine(),
    any_device: MixDevices = False,
    care: Care = Care(),
    as_json: AsJson = False,
) -> str:
    """Compare estimates with metered models.

    Unseen members of the model's family are metered here, and every method is compared with them.
    """
    from ampere import _api

    model = training.named(model)
    try:
        with closing(machine.open(model)) as device, progress() as watch:
            evaluation = _api.evaluate(
                model,
                training.input,
                training=training.over(_api.training_for(path)),
                path=path,
                device=device,
                models=models,
                seed=seed,
                effort=care.effort(),
                any_device=any_device,
                watch=watch,
            )
    except KeyboardInterrupt:
        raise Interrupted("models metered so far are not kept, the profile is unharmed") from None
    return json_text(evaluation.to_json()) if as_json else repr(evaluation)


EVALUATE = Command(evaluate, "ampere evaluate zoo:lenet5 --profile lenet5.ampere --models 30")
