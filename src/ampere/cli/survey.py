"""`ampere survey`: learn what calls cost on this device, for any model."""

from __future__ import annotations

import math
import shlex
from contextlib import closing
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import (
    AsJson,
    Care,
    LikeDevices,
    Machine,
    MixDevices,
    ProfilePath,
    Sittings,
    above_zero,
    share,
)
from ampere.cli.profile import kept, lenders_of, profile_row
from ampere.cli.progress import progress
from ampere.cli.shell import Interrupted, json_text, say
from ampere.errors import Busy


def survey(
    path: ProfilePath,
    like: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GENRE|MODEL",
            help="vision, mobile, language, recurrent or a model; may be given several times.",
        ),
    ] = None,
    input: Annotated[
        str | None, typer.Option(metavar="SHAPES", help="One sample of the models of --like.")
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="End after this time.", callback=above_zero),
    ] = 600.0,
    energy_limit: Annotated[
        float | None,
        typer.Option(metavar="JOULES", help="End after these joules.", callback=above_zero),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="End when the expected error is this, in the middle.",
            callback=share,
        ),
    ] = 0.03,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="float32, bfloat16, float16 or float64."),
    ] = None,
    amp: Annotated[bool, typer.Option("--amp", help="Automatic mixed precision, in bfloat16.")] = (
        False
    ),
    like_devices: LikeDevices = None,
    machine: Machine = Machine(),
    any_device: MixDevices = False,
    care: Care = Care(),
    again: Sittings = Sittings(),
    as_json: AsJson = False,
) -> str:
    """Learn what this device takes for any model.

    Random networks are trained and metered, chosen so that the error to be expected of real
    architectures shrinks most. Each measurement is kept in the profile's file at once: the same
    command goes on where it stopped, and makes it better. Profiles of families grow by it, too.
    """
    from ampere.acquisition.survey import survey as survey_device
    from ampere.core.training import Training

    lenders = None if like_devices is None else lenders_of(like_devices, path, by_calls=True)
    try:
        with closing(machine.open()) as device, progress() as watch:
            learned = survey_device(
                path,
                device=device,
                like=like or (),
                input=input,
                training=Training(dtype=dtype, amp=amp),
                tolerance=tolerance,
                effort=care.effort(),
                time_limit_s=time_limit,
                energy_limit_j=energy_limit or math.inf,
                sittings=again.sittings,
                pause_s=again.pause,
                any_device=any_device,
                lenders=lenders,
                watch=watch,
            )
    except KeyboardInterrupt:
        raise Interrupted(kept(path)) from None
    except Busy as error:
        raise Busy(f"{error}; {kept(path)}") from None
    if as_json:
        for note in learned.notes:
            say(f"warning: {note}")
        return json_text(profile_row(learned, path))
    return (
        f"{learned!r}\n\nsaved in {path}; next, with any model:\n  ampere estimate zoo:resnet"
        f" --profile {shlex.quote(str(path))} --batch-size 32 --optimizer adamw --steps 2000"
    )


SURVEY = Command(survey, "ampere survey --profile laptop.ampere --time-limit 600 --like vision")
