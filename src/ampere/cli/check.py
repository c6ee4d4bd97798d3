"""`ampere check`: is this machine fit for measuring?"""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson, Care, Machine, not_below_zero
from ampere.cli.progress import progress
from ampere.cli.shell import json_text


def check(
    machine: Machine = Machine(),
    care: Care = Care(),
    pause: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Before the same is measured once more.",
            callback=not_below_zero,
        ),
    ] = 60.0,
    as_json: AsJson = False,
) -> str:
    """See whether this machine is fit for measuring.

    How well measurements repeat on it, at once and after a pause, what would help, and whether the
    energy of layers adds up.
    """
    from ampere import _api

    with closing(machine.open()) as device, progress() as watch:
        verdicts = _api.check(device=device, effort=care.effort(), pause_s=pause, watch=watch)
    return json_text(verdicts.to_json()) if as_json else repr(verdicts)


CHECK = Command(check, "ampere check --threads 1")
