"""`ampere measure`: meter a model itself, or the loader of its data."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import FORMS, AsJson, Care, Machine, Sittings, TrainingOptions
from ampere.cli.shell import json_text


def measure(
    training: TrainingOptions,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=FORMS)] = None,
    loader: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:FUNCTION",
            help="Instead of MODEL, what returns a DataLoader: joules of its batches.",
        ),
    ] = None,
    machine: Machine = Machine(),
    care: Care = Care(),
    again: Sittings = Sittings(),
    as_json: AsJson = False,
) -> str:
    """Meter a model itself, or a data loader.

    Of a model its training step, of a loader its batches.
    """
    if loader is not None:
        if model is not None or training != TrainingOptions() or again != Sittings():
            raise typer.BadParameter("--loader is metered by itself: leave MODEL and training out")
        return _measure_loader(loader, machine, care, as_json)
    if model is None:
        raise typer.BadParameter("give either MODEL or --loader")
    from ampere import _api
    from ampere.core.training import Training

    model = training.named(model)
    with closing(machine.open(model)) as device:
        measured = _api.measure(
            model,
            training.input,
            training=training.over(Training()),
            device=device,
            effort=care.effort(),
            sittings=again.sittings,
            pause_s=again.pause,
        )
    return json_text(measured.to_json()) if as_json else repr(measured)


def _measure_loader(loader: str, machine: Machine, care: Care, as_json: bool) -> str:
    """Joules and seconds of a batch of data."""
    from ampere import _api
    from ampere.meters.registry import parse_meter

    if machine.device != "local" or machine.accelerator != "cpu":
        raise typer.BadParameter("--loader loads on this machine's processor: --device local")
    meter, settings = parse_meter(machine.meter)
    with closing(_api.loader_device(machine.settings(), meter, settings)) as device:
        measured = _api.measure_loader(loader, device=device, effort=care.effort())
    return json_text(measured.to_json()) if as_json else repr(measured)


MEASURE = Command(measure, "ampere measure my_model.py:Net --input 3x32x32 --batch-size 32")
