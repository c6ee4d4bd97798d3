"""`ampere estimate`: what training a model will cost."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import (
    FORMS,
    MANY,
    AcceptBusy,
    AsJson,
    Job,
    Machine,
    Method,
    MixDevices,
    ProfilePath,
    TrainingOptions,
    above_zero,
    at_most,
)
from ampere.cli.shell import json_text, say
from ampere.errors import NotCovered

if TYPE_CHECKING:
    from ampere.core.layers import Layer
    from ampere.profiles.profile import Profile


@dataclass(frozen=True)
class Subject:
    """What is asked about: a model, or plain layers."""

    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help=FORMS),
    ] = None
    layers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Layers as JSON instead of MODEL; needs no PyTorch."),
    ] = None

    def __post_init__(self) -> None:
        if (self.model is None) == (self.layers is None):
            raise typer.BadParameter("give either MODEL or --layers")

    def read(self) -> str | tuple[Layer, ...]:
        """The name of the model, or the layers themselves."""
        from ampere.records.rows import read_layer_file

        return self.model or read_layer_file(self.layers or Path())


def estimate(
    path: ProfilePath,
    training: TrainingOptions,
    subject: Subject,
    job: Job = Job(),
    battery_wh: Annotated[
        float | None,
        typer.Option(metavar="WH", help="What the battery holds.", callback=above_zero),
    ] = None,
    after_steps: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Run N steps of MODEL here first, and learn.",
            callback=at_most(MANY),
        ),
    ] = None,
    method: Method = "additive",
    machine: Machine = Machine(),
    any_device: MixDevices = False,
    accept_busy: AcceptBusy = False,
    as_json: AsJson = False,
) -> str:
    """Estimate what training a model will cost.

    Joules and seconds, with an interval and layer by layer, from a profile that covers its layers.
    """
    from ampere.profiles.profile import Profile

    model, layers = training.named(subject.model or "") or None, subject.layers
    if after_steps is not None and model is None:
        raise typer.BadParameter("--after-steps needs MODEL: layers alone cannot run")
    if after_steps is None and (machine != Machine() or accept_busy):
        raise typer.BadParameter("--device, its settings and --accept-busy go with --after-steps")
    if layers is not None and training != TrainingOptions(batch_size=training.batch_size):
        raise typer.BadParameter("layers say themselves how they are trained: leave that out")
    profile = Profile.load(path, method, keep_fit=True)
    if job.epochs is not None and layers is not None and training.batch_size is None:
        raise typer.BadParameter("--epochs with --layers needs --batch-size")
    settings = training.over(profile.training)
    steps = job.length(settings.batch_size) or 1
    if after_steps is not None and model is not None:
        profile = _sharpened(
            profile, model, training, after_steps, machine, any_device, accept_busy
        )
    asked = model or subject.read()
    try:
        answer = profile.estimate(
            asked, training.input, training=settings, steps=steps, battery_wh=battery_wh
        )
    except NotCovered:
        raise NotCovered(
            f"{path} covers no layer of {model or layers}: {_made_for(profile)}; profile this model"
            " first, with `ampere profile` and the same options"
        ) from None
    if as_json:
        for text in answer.warnings:
            say(f"warning: {text}")
        return json_text(answer.to_json())
    return repr(answer)


def _sharpened(
    profile: Profile,
    model: str,
    training: TrainingOptions,
    steps: int,
    machine: Machine,
    any_device: bool,
    accept_busy: bool,
) -> Profile:
    """The profile, with what a few steps of the very model taught."""
    from ampere import _api

    with closing(machine.open()) as device:
        return _api.after_steps(
            profile,
            model,
            training.input,
            training=training.over(profile.training),
            steps=steps,
            device=device,
            any_device=any_device,
            accept_busy=accept_busy,
        )


def _made_for(profile: Profile) -> str:
    """What a profile was made for, as far as it says."""
    if not profile.header.model:
        return "it has other kinds of layers"
    training = profile.training
    return (
        f"it was made for {profile.header.model} with batch size {training.batch_size},"
        f" {training.optimizer} and loss {training.loss}"
    )


ESTIMATE = Command(
    estimate, "ampere estimate zoo:lenet5 --profile lenet5.ampere --epochs 3 --samples 60000"
)
