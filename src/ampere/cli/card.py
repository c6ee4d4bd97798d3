"""`ampere card`: what a run has emitted, for the card of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson, CarbonRate
from ampere.cli.shell import json_text, say

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or its gate.jsonl.")]


def card(
    run: Run,
    carbon: CarbonRate = None,
    training_type: Annotated[
        str, typer.Option(metavar="TYPE", help="pre-training or fine-tuning.")
    ] = "",
    location: Annotated[
        str, typer.Option(metavar="PLACE", help="Where it was trained. Default: the country.")
    ] = "",
    hardware: Annotated[
        str, typer.Option(metavar="TEXT", help="What it was trained on. Default: the device.")
    ] = "",
    as_json: AsJson = False,
) -> str:
    """Say what a run has emitted, for a model's card.

    A snippet for its README on the Hugging Face Hub.
    """
    from ampere.core.boundary.files import read_text
    from ampere.core.rates import parse_carbon
    from ampere.gates.card import make_card
    from ampere.gates.story import read_events, story_path

    rate = None if carbon is None else parse_carbon(carbon)
    name, text = read_text(story_path(run))
    made = make_card(
        read_events(text.splitlines(), name),
        carbon=rate,
        training_type=training_type,
        location=location,
        hardware=hardware,
    )
    for warning in made.warnings:
        say(f"warning: {warning}")
    return json_text(made.to_json()) if as_json else made.text()


CARD = Command(card, "ampere card runs/a --carbon FR --training-type fine-tuning")
