"""`ampere align` and `ampere pulse`: joules out of a log that was recorded beside a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson, ProfilePath, finite
from ampere.cli.profile import profile_row
from ampere.cli.shell import json_text


def align(
    path: ProfilePath,
    log: Annotated[
        str, typer.Option(metavar="FILE", help="CSV of Monsoon, Joulescope, POWER-Z, or any.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The profile to write.")
    ],
    format: Annotated[
        str, typer.Option(metavar="NAME", help="auto, monsoon, joulescope, power-z or generic.")
    ] = "auto",
    offset_s: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Added to the log's clock.", callback=finite),
    ] = 0.0,
    pulse_at: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="When `ampere pulse` said that its pulse began.",
            callback=finite,
        ),
    ] = None,
    as_json: AsJson = False,
) -> str:
    """Give a profile the joules of a lab meter's log.

    For meters that record by themselves: profile as usual while they do, then put their log to it.
    The new profile has the log's joules; the old one stays as it is.
    """
    from ampere.profiles.alignment import align as align_profile

    learned = align_profile(path, log, output, format=format, offset_s=offset_s, pulse_at=pulse_at)
    if as_json:
        return json_text(profile_row(learned, output))
    return f"{learned!r}\n\nsaved in {output}"


def pulse(as_json: AsJson = False) -> str:
    """Mark this moment in a log that is being recorded.

    A processor is kept busy in a known pattern for six seconds; `ampere align --pulse-at` finds it
    in the log, whatever its clock says.
    """
    from ampere.meters.drivers.log import make_pulse

    began_s = make_pulse()
    if as_json:
        return json_text({"pulse_at": began_s})
    return f"the pulse began at {began_s:.3f}: ampere align --pulse-at {began_s:.3f}"


ALIGN = Command(align, "ampere align --profile pi.ampere --log monsoon.csv -o pi-measured.ampere")
PULSE = Command(pulse, "ampere pulse")
