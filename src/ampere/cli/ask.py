"""`ampere ask`: what to measure elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import MANY, ProfilePath, TrainingOptions, at_most, known_runtime
from ampere.cli.shell import json_text, say
from ampere.core.program.structure import TORCH
from ampere.core.types import Json
from ampere.errors import DataError

if TYPE_CHECKING:
    from ampere.acquisition.families import Network
    from ampere.acquisition.strategy import Strategy


@dataclass(frozen=True)
class Beginning:
    """What is said the first time, since the profile knows it afterwards."""

    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The first time: what the device is called."),
    ] = None
    provenance: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="The first time: counter, sensor, battery, external, modelled or simulated."
            " Default: external.",
        ),
    ] = None
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The first time: who trains there, torch, mnn or jax. Default: torch.",
            callback=known_runtime,
        ),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The first time: additive or paper. Default: additive."),
    ] = None
    per_layer: Annotated[
        bool,
        typer.Option("--per-layer", help="The first time: also tell layers apart."),
    ] = False

    @property
    def is_given(self) -> bool:
        """Whether anything was said."""
        return self != Beginning()

    def strategy(self, limit: int) -> Strategy:
        """How the profile goes on, up to so many measurements."""
        from ampere.acquisition.strategy import Strategy

        return Strategy(self.method or "additive", limit, per_layer=self.per_layer)


def ask(
    path: ProfilePath,
    training: TrainingOptions,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="The first time: what the profile shall be for."),
    ] = None,
    n: Annotated[
        int,
        typer.Option("-n", min=1, metavar="N", help="At most so many.", callback=at_most(MANY)),
    ] = 8,
    measurements: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="At most so many in all. Default: 40, or as at first.",
            callback=at_most(MANY),
        ),
    ] = None,
    beginning: Beginning = Beginning(),
) -> str:
    """Say what to measure next on a device that ampere cannot reach.

    One JSON object a line: a network, described completely. Run it anywhere, with any framework,
    add the joules and seconds of a step to it, and let `ampere tell` have it.
    """
    from ampere.acquisition import exchange
    from ampere.core.training import Training
    from ampere.records.measurement import read_provenance

    has_begun = path.exists()
    if has_begun and beginning.is_given:
        names = [f"--{field.name.replace('_', '-')}" for field in fields(beginning)]
        listed = ", ".join(names)
        raise DataError(f"{path} knows its device and how to go on: ask without {listed}")
    limit = 40 if measurements is None else measurements
    usual = exchange.asked_training(path) if path.exists() else Training()
    networks = exchange.ask(
        path,
        n,
        training.named(model or "") or None,
        training.input,
        training=None if training.untouched else training.over(usual),
        strategy=None if has_begun else beginning.strategy(limit),
        max_measurements=measurements,
        device=beginning.label or "told",
        provenance=read_provenance(beginning.provenance or "external"),
        runtime=beginning.runtime or TORCH,
    )
    if not networks:
        say(_why_none(path, measurements))
    return "\n".join(json_text(_row(network)) for network in networks)


def _row(network: Network) -> dict[str, Json]:
    """A network, described completely."""
    from ampere.core.description import describe

    return {
        "name": network.name,
        "layers": [layer.to_json() for layer in network.layers],
        "network": describe(network.layers),
    }


def _why_none(path: Path, limit: int | None) -> str:
    """Enough is known, or the limit is reached: which of both?"""
    from ampere.estimators.base import usable
    from ampere.records.journal import read_journal

    header, rows = read_journal(path)
    most = limit or (header.asks or {}).get("strategy", {}).get("max_measurements", math.inf)
    if len(usable(rows)) < most:
        return f"enough is known: {path} needs no more measurements"
    return f"{path} has its {most} measurements: --measurements {2 * most} asks for more"


ASK = Command(ask, "ampere ask zoo:lenet5 --profile phone.ampere -n 8 > todo.jsonl")
