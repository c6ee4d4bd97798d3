"""`ampere ask`: what to measure elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from ampere.cli.options import Method, ProfilePath, Training
from ampere.cli.shell import json_text, say
from ampere.errors import DataError


def ask(
    path: ProfilePath,
    training: Training,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="The first time: what the profile shall be for."),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="At most so many.")] = 8,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The first time: what the device is called."),
    ] = None,
    provenance: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="The first time: counter, sensor, battery, external, modelled or simulated."
            " Default: external.",
        ),
    ] = None,
    measurements: Annotated[
        int | None,
        typer.Option(metavar="N", help="The first time: at most so many in all. Default: 40."),
    ] = None,
    method: Method = "additive",
) -> str:
    """Say what to measure next on a device that ampere cannot reach.

    One JSON object a line: a network, described completely. Run it anywhere, with any framework,
    add the joules and seconds of a step to it, and let `ampere tell` have it.
    """
    from ampere import api
    from ampere.descriptions import describe
    from ampere.measurements import read_provenance
    from ampere.strategies import Strategy

    begun = path.exists()
    if begun and any(each is not None for each in (label, provenance, measurements)):
        raise DataError(f"{path} knows its device and how to go on: ask without them")
    networks = api.ask(
        path,
        n,
        model,
        **training.given(),
        strategy=None if begun else Strategy(method, 40 if measurements is None else measurements),
        device=label or "told",
        provenance=read_provenance(provenance or "external"),
    )
    if not networks:
        say(f"enough is known: {path} needs no more measurements")
    return "\n".join(
        json_text(
            {
                "name": network.name,
                "layers": [layer.to_json() for layer in network.layers],
                "network": describe(network.layers),
            }
        )
        for network in networks
    )
