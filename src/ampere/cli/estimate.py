"""`ampere estimate`: what training a model will cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.options import (
    AsJson,
    Job,
    Machine,
    Method,
    MixDevices,
    ProfilePath,
    TrainingOptions,
    above_zero,
)
from ampere.cli.shell import json_text, say
from ampere.core.types import Json
from ampere.errors import DataError, NotCovered

if TYPE_CHECKING:
    from ampere.core.layers import Layer


def estimate(
    path: ProfilePath,
    training: TrainingOptions,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help="zoo:lenet5, path/file.py:factory or package.module:factory"
        ),
    ] = None,
    layers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Layers as JSON instead of MODEL; needs no PyTorch."),
    ] = None,
    job: Job = Job(),
    battery_wh: Annotated[
        float | None,
        typer.Option(metavar="WH", help="What the battery holds.", callback=above_zero),
    ] = None,
    after_steps: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Run N steps of MODEL here first, and learn."),
    ] = None,
    method: Method = "additive",
    machine: Machine = Machine(),
    any_device: MixDevices = False,
    as_json: AsJson = False,
) -> str:
    """Estimate what training a model will cost.

    Joules and seconds, with an interval and layer by layer, from a profile that covers its layers.
    """
    if after_steps is not None and model is None:
        raise typer.BadParameter("--after-steps needs MODEL: layers alone cannot run")
    if (model is None) == (layers is None):
        raise typer.BadParameter("give either MODEL or --layers")
    from ampere.profiles.profile import Profile

    profile = Profile.load(path, method)
    if job.epochs is not None and layers is not None and training.batch_size is None:
        raise typer.BadParameter("--epochs with --layers needs --batch-size")
    settings = training.over(profile.training)
    steps = job.length(settings.batch_size)
    if after_steps is not None and model is not None:
        from ampere import _api

        with closing(machine.open()) as device:
            profile = _api.after_steps(
                profile,
                model,
                training.input,
                training=settings,
                steps=after_steps,
                device=device,
                any_device=any_device,
            )
    subject = _read_layers(layers) if model is None else model
    answer = profile.estimate(
        subject, training.input, training=settings, steps=steps or 1, battery_wh=battery_wh
    )
    if not answer.lines:
        known = profile.training
        made_for = (
            f"it was made for {profile.header.model} with batch size {known.batch_size},"
            f" {known.optimizer} and loss {known.loss}"
            if profile.header.model
            else "it has other kinds of layers"
        )
        raise NotCovered(
            f"{path} covers no layer of {model or layers}: {made_for}; profile this model first,"
            " with `ampere profile` and the same options"
        )
    if as_json:
        for text in answer.warnings:
            say(f"warning: {text}")
        return json_text(answer.to_json())
    return repr(answer)


def _read_layers(path: Path | None) -> tuple[Layer, ...]:
    """Layers as one JSON document, such as `ampere layers --json` prints, or one object a line."""
    from ampere.profiles.estimate import read_layer_list
    from ampere.records.measurement import parse_json

    name = "standard input" if str(path) == "-" else str(path)
    try:
        text = sys.stdin.read() if str(path) == "-" else Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name} cannot be read as text: {error}") from None
    try:
        whole = parse_json(text)
        rows = whole if isinstance(whole, list) else [whole]
    except DataError:
        rows = [_parse_line(name, i, line) for i, line in enumerate(text.splitlines(), 1) if line]
    if not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"{name} has something else than layers: give one JSON object a line")
    return read_layer_list(rows)


def _parse_line(name: str, number: int, line: str) -> Json:
    from ampere.records.measurement import parse_json

    try:
        return parse_json(line)
    except DataError as error:
        raise DataError(f"{name} line {number}: {error}") from None
