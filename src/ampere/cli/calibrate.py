"""`ampere calibrate`: fit the model of the meter `cpu` to something better."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import asdict
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.shell import hint, json_text, say

POOR = 0.2  # relative error of a fit that is worth a warning
LEAST_W, MOST_W = 1e-6, 1e5  # of any machine that somebody trains on

_WATTS = re.compile(
    r"\s*(?P<cores>\d{1,6})\s*=\s*(?P<watts>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*", re.ASCII
)


def calibrate(
    meter: Annotated[
        str | None, typer.Option(metavar="METER", help="A better meter: rapl, shelly:url=...")
    ] = None,
    watts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CORES=WATTS",
            help="What a wall meter shows with so many cores busy; at least twice.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> str:
    """Fit the watts of the meter `cpu`.

    To a better meter, under which this machine is kept idle and busy for half a minute, or to what
    you read off a wall meter. They are kept, with their error; the joules stay modelled.
    """
    from ampere import _api
    from ampere.meters.registry import open_meter, parse_meter

    if (meter is None) == (not watts):
        raise typer.BadParameter("give either --meter, or --watts twice or more")
    if meter is None:
        calibration = _api.calibrate(watts=_watts_by_cores(watts or []))
    else:
        name, settings = parse_meter(meter)
        with closing(open_meter(name, **settings)) as better:
            calibration = _api.calibrate(better, watch=hint)
    if calibration.error is not None and calibration.error > POOR:
        say(
            f"warning: the model is off by {calibration.error:.0%}: was the machine doing something"
            " else?"
        )
    if as_json:
        return json_text(asdict(calibration))
    return f"the meter cpu now takes {calibration}; its joules stay modelled"


def _watts_by_cores(texts: list[str]) -> dict[int, float]:
    """Read `0=2.7`: so many busy cores, and the watts that they took."""
    watts: dict[int, float] = {}
    for text in texts:
        match = _WATTS.fullmatch(text)
        if match is None:
            raise typer.BadParameter(f"{text!r} is not like 0=2.7: cores, then watts")
        cores, power_w = int(match["cores"]), float(match["watts"])
        if cores in watts:
            raise typer.BadParameter(f"{cores} cores are given twice; keep one")
        if not LEAST_W <= power_w < MOST_W:
            raise typer.BadParameter(f"{text!r}: cores from 0 on, watts above 0")
        watts[cores] = power_w
    return watts


CALIBRATE = Command(calibrate, "ampere calibrate --watts 0=2.7 --watts 4=6.4")
