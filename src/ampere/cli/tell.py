"""`ampere tell`: add measurements that were made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson, MixDevices, ProfilePath, known_runtime
from ampere.cli.profile import profile_row
from ampere.cli.shell import json_text
from ampere.core import units


def tell(
    rows: Annotated[
        Path,
        typer.Argument(
            metavar="ROWS",
            help="One JSON object a line with layers and energy_j_per_step; - is standard input.",
            show_default=False,
        ),
    ],
    path: ProfilePath,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who trained there: torch, mnn or jax. Default: the profile's own, or torch.",
            callback=known_runtime,
        ),
    ] = None,
    any_device: MixDevices = False,
    as_json: AsJson = False,
) -> str:
    """Add measurements that were made elsewhere.

    The profile is created if it is not there. Rows of another device are refused.
    """
    from ampere.acquisition.exchange import add_rows
    from ampere.records.rows import read_rows

    learned, added = add_rows(path, read_rows(rows), any_device=any_device, runtime=runtime)
    if as_json:
        return json_text({"told": added, **profile_row(learned, path)})
    return f"{learned!r}\n\n{units.plural(added, 'row')} added to {path}"


TELL = Command(tell, "ampere tell --profile phone.ampere done.jsonl")
