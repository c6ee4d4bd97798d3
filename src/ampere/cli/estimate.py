"""`ampere estimate`: what training a model will cost."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.jobs import Around
from ampere.cli.options import (
    FORMS,
    MANY,
    AcceptBusy,
    AsJson,
    BatteryWh,
    Job,
    LikeDevices,
    Machine,
    Method,
    MixDevices,
    Rates,
    TrainingOptions,
    at_most,
)
from ampere.cli.shell import json_text, say
from ampere.errors import NotCovered

if TYPE_CHECKING:
    from ampere.core.layers import Layer
    from ampere.profiles.estimate import Estimate
    from ampere.profiles.profile import Profile

_NO_PROFILE = (
    "--profile FILE is missing; --like-devices can do without it, but not with --after-steps or"
    " --method paper"
)


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
    training: TrainingOptions,
    subject: Subject,
    path: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="The profile's file.")
    ] = None,
    like_devices: LikeDevices = None,
    job: Job = Job(),
    around: Around = Around(),
    battery_wh: BatteryWh = None,
    rates: Rates = Rates(),
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
    With --like-devices, what it does not tell is borrowed from other devices; without --profile,
    all is. Validation and data loading are in it where they are asked for.
    """
    model, layers = training.named(subject.model or "") or None, subject.layers
    if after_steps is not None and model is None:
        raise typer.BadParameter("--after-steps needs MODEL: layers alone cannot run")
    if after_steps is None and (machine != Machine() or accept_busy):
        raise typer.BadParameter("--device, its settings and --accept-busy go with --after-steps")
    if layers is not None and training != TrainingOptions(batch_size=training.batch_size):
        raise typer.BadParameter("layers say themselves how they are trained: leave that out")
    if job.epochs is not None and layers is not None and training.batch_size is None:
        raise typer.BadParameter("--epochs with --layers needs --batch-size")
    carbon, price = rates.read()
    if path is None:
        if like_devices is None or after_steps is not None or method != "additive":
            raise typer.BadParameter(_NO_PROFILE)
        unmeasured = _unmeasured(subject, training, job, around, battery_wh, like_devices)
        return _printed(unmeasured.at_rates(carbon, price, time.time()), as_json)
    profile = _loaded(path, method, like_devices)
    settings = training.over(profile.training)
    if after_steps is not None and model is not None:
        profile = _sharpened(
            profile, model, training, after_steps, machine, any_device, accept_busy
        )
    asked = model or subject.read()
    try:
        answer = profile.estimate(
            asked,
            training.input,
            training=settings,
            job=around.job(job),
            battery_wh=battery_wh,
        )
    except NotCovered:
        raise NotCovered(
            f"{path} covers no layer of {model or layers}: {_made_for(profile)}; profile this model"
            " first, with `ampere profile` and the same options"
        ) from None
    return _printed(answer.at_rates(carbon, price, time.time()), as_json)


def _printed(answer: Estimate, as_json: bool) -> str:
    if as_json:
        for text in answer.warnings:
            say(f"warning: {text}")
        return json_text(answer.to_json())
    return repr(answer)


def _loaded(path: Path, method: str, like_devices: str | None) -> Profile:
    """The profile, with other devices to borrow from, if any were named."""
    from ampere.profiles.profile import Profile

    profile = Profile.load(path, method, keep_fit=True)
    if like_devices is None:
        return profile
    if method != "additive":
        raise typer.BadParameter("only the additive method borrows: leave --method paper")
    from ampere.profiles.borrowing import make_lenders, read_entries

    return profile.borrowing(make_lenders(read_entries(like_devices, path), profile))


def _unmeasured(
    subject: Subject,
    training: TrainingOptions,
    job: Job,
    around: Around,
    battery_wh: float | None,
    like_devices: str,
) -> Estimate:
    """What other devices say of one that was never metered."""
    from ampere.profiles import borrowing

    entries = borrowing.read_entries(like_devices)
    settings = training.over(borrowing.usual_training(entries))
    asked = subject.read()
    if isinstance(asked, str):
        from ampere.frameworks.models import read

        asked = read(asked, training.input, settings)
    from ampere.profiles.whole_job import whole_job

    step = borrowing.estimate_unmeasured(asked, entries, battery_wh=battery_wh)
    return whole_job(step, around.job(job), batch_size=settings.batch_size, layers=asked)


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

    with closing(machine.open(model)) as device:
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
