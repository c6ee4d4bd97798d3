"""`ampere estimate`: what training a model will cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

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
from ampere.cli.shell import Answer, json_text, say
from ampere.errors import AmpereError, NotCovered

if TYPE_CHECKING:
    from ampere.core.layers import Layer
    from ampere.profiles.estimate import Estimate
    from ampere.profiles.jobs.job import Job as WholeJob
    from ampere.profiles.profile import Profile

    Ask: TypeAlias = Callable[["Subject"], Estimate]

_NO_PROFILE = (
    "--profile FILE is missing; `ampere profile MODEL --profile FILE` makes one"
    " (--like-devices DIR can do without, but not with --after-steps or --method paper)"
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


@dataclass(frozen=True)
class Subjects:
    """What is asked about: a model, several of them, or plain layers."""

    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL...", help=f"{FORMS}; several are a table of totals."),
    ] = None
    layers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Layers as JSON instead of MODEL; needs no PyTorch."),
    ] = None

    def each(self) -> list[Subject]:
        """Each alone; one that is named twice is asked about once."""
        return [Subject(model) for model in dict.fromkeys(self.models or ())] or [
            Subject(None, self.layers)
        ]

    def __post_init__(self) -> None:
        if bool(self.models) == (self.layers is not None):
            raise typer.BadParameter("give either MODEL or --layers")


def estimate(
    training: TrainingOptions,
    subjects: Subjects,
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
    all is. Validation and data loading are in it where they are asked for. Several models are a
    table of totals; one that cannot be estimated is named, and the exit code is 1.
    """
    asked = [_named(subject, training) for subject in subjects.each()]
    layers, several = subjects.layers, len(subjects.models or ()) > 1
    if after_steps is not None and (layers is not None or several):
        reason = "layers alone cannot run" if layers else "it learns of one alone"
        raise typer.BadParameter(f"--after-steps needs MODEL: {reason}")
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
        ask = _unmeasured(training, job, around, battery_wh, like_devices)
    else:
        profile = _loaded(path, method, like_devices)
        if after_steps is not None and asked[0].model is not None:
            profile = _sharpened(
                profile, asked[0].model, training, after_steps, machine, any_device, accept_busy
            )
        ask = _measured(profile, path, training, around.job(job), battery_wh)

    def answer(subject: Subject) -> Estimate:
        return ask(subject).at_rates(carbon, price, time.time())

    return _side_by_side(asked, answer, as_json) if several else _printed(answer(asked[0]), as_json)


def _named(subject: Subject, training: TrainingOptions) -> Subject:
    """The same, with what was said of the model in its name."""
    name = training.named(subject.model or "")  # which refuses what does not go with layers, too
    return subject if subject.model is None else Subject(name)


def _measured(
    profile: Profile,
    path: Path,
    training: TrainingOptions,
    job: WholeJob | None,
    battery_wh: float | None,
) -> Ask:
    """Who is asked: a profile."""
    settings = training.over(profile.training)

    def ask(subject: Subject) -> Estimate:
        asked = subject.read()
        try:
            return profile.estimate(
                asked, training.input, training=settings, job=job, battery_wh=battery_wh
            )
        except NotCovered:
            raise NotCovered(
                f"{path} covers no layer of {subject.model or subject.layers}:"
                f" {_why_not(profile, asked)}"
            ) from None

    return ask


def _why_not(profile: Profile, asked: str | Sequence[Layer]) -> str:
    """Why nothing is covered, and what to do."""
    kinds = {layer.kind.name for row in profile.measurements for layer in row.layers}
    if not isinstance(asked, str) and kinds & {layer.kind.name for layer in asked}:
        return "its FLOPs are not told, by which these kinds are known there; tell them in the file"
    return (
        f"{_made_for(profile)}; profile this model first, with `ampere profile` and the same"
        " options"
    )


def _side_by_side(asked: Sequence[Subject], answer: Ask, as_json: bool) -> str:
    """All of them in a table; one that fails is a line on standard error, and the others stand."""
    from ampere.profiles.lineup import Lineup

    names = tuple(str(subject.model) for subject in asked)
    known: list[tuple[str, Estimate]] = []
    failed: list[tuple[str, str]] = []
    for name, subject in zip(names, asked, strict=True):
        try:
            known.append((name, answer(subject)))
        except AmpereError as error:
            said = str(error)
            failed.append((name, said if name in said else f"{name}: {said}"))
    lineup = Lineup(tuple(known), tuple(failed))
    if as_json:
        for text in lineup.warnings:
            say(f"warning: {text}")
    for _, text in failed:
        say(f"error: {text}")
    shown = repr(lineup) if known else ""
    return Answer(json_text(lineup.to_json(names)) if as_json else shown, 1 if failed else 0)


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
    training: TrainingOptions,
    job: Job,
    around: Around,
    battery_wh: float | None,
    like_devices: str,
) -> Ask:
    """Who is asked about a device that was never metered: others."""
    from ampere.profiles import borrowing
    from ampere.profiles.jobs.whole_job import whole_job

    entries = borrowing.read_entries(like_devices)
    settings = training.over(borrowing.usual_training(entries))
    whole = around.job(job)

    def ask(subject: Subject) -> Estimate:
        asked = subject.read()
        if isinstance(asked, str):
            from ampere.frameworks.models import read

            asked = read(asked, training.input, settings)
        step = borrowing.estimate_unmeasured(asked, entries, battery_wh=battery_wh)
        return whole_job(step, whole, batch_size=settings.batch_size, layers=asked)

    return ask


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
