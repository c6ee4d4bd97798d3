"""`ampere reproduce`: every figure and table of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.progress import progress
from ampere.cli.shell import Interrupted, json_text


def reproduce(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where results go, or what to go on with."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes instead of an hour, and rough.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="fig8, table1, ...; may be given several times."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="local, simulated, threads1, xavier, ...; may be given several times.",
        ),
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Published energies to look at as well, as CSV files."),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit", help="Measure nothing: make everything anew from the journals in DIR."
        ),
    ] = False,
    as_json: AsJson = False,
) -> str:
    """Make every figure and table of the paper.

    Runs its experiments on this machine and on the simulated devices, and writes raw measurements,
    figures, tables and a page that sets all methods side by side. The same command goes on where
    it stopped.
    """
    from ampere.errors import DataError
    from ampere_paper.lab.plans import FULL, QUICK
    from ampere_paper.reproduction import reproduce as run

    plan = (QUICK if quick else FULL).on(device or (), recorded)
    try:
        with progress() as watch:
            done = run(output, plan, only or (), watch, refit)
    except KeyboardInterrupt:
        kept = f"everything measured so far is in {output}; the same command goes on from there"
        raise Interrupted(kept) from None
    if done.failed:
        reasons = "; ".join(f"{each.experiment.name}: {each.failed}" for each in done.failed)
        raise DataError(
            f"{len(done.failed)} of {len(done.outcomes)} experiments failed ({reasons});"
            f" the others are in {output / 'index.html'}"
        )
    return json_text(done.to_json()) if as_json else repr(done)


REPRODUCE = Command(reproduce, "ampere reproduce --quick --device simulated -o results")
