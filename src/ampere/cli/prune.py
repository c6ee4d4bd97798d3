"""`ampere prune`: cut a model to an energy budget."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.options import (
    AsJson,
    Care,
    Job,
    Machine,
    MixDevices,
    Model,
    ProfilePath,
    TrainingOptions,
    above_zero,
)
from ampere.cli.shell import json_text, say


def prune(
    model: Model,
    path: ProfilePath,
    budget: Annotated[
        str,
        typer.Option(
            metavar="BUDGET",
            help="50% of the model's own energy, 2J/step, or 800J or 5Wh for a whole job.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="A new folder for the model.")
    ],
    training: TrainingOptions,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its weights: safetensors, or a state_dict of torch."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="SHARE", help="How surely the budget holds, from 0.5 on.")
    ] = 0.9,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="random, gradient or evolution.")
    ] = "random",
    guide: Annotated[
        str, typer.Option(metavar="NAME", help="energy, or flops to compare with.")
    ] = "energy",
    importance: Annotated[
        str, typer.Option(metavar="NAME", help="Which channels stay: l2, l1, bn or random.")
    ] = "l2",
    least: Annotated[
        float, typer.Option(metavar="SHARE", help="What stays of every width at least.")
    ] = 0.1,
    round_to: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Widths in multiples of N. Default: as it can."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="To score and fine-tune on: digits, celeba:DIR or path/file.py:function.",
        ),
    ] = None,
    fine_tune: Annotated[
        int, typer.Option(min=0, metavar="N", help="Steps of fine-tuning, with --data.")
    ] = 0,
    learning_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Of fine-tuning.", callback=above_zero),
    ] = None,
    job: Job = Job(),
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Of everything that is random.")
    ] = 0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Meter both models; look again if over the budget.")
    ] = False,
    machine: Machine = Machine(),
    care: Care = Care(),
    any_device: MixDevices = False,
    as_json: AsJson = False,
) -> str:
    """Cut a model to an energy budget.

    Writes the smaller model (weights, widths, and a Python file that builds it), and says what was
    cut where and what training it will cost.
    """
    import safetensors  # noqa: F401  what is missing is said now, not after an hour of fine-tuning

    from ampere.profiles.profile import Profile
    from ampere.pruning.prune import prune as prune_model
    from ampere.pruning.result import refuse_to_overwrite

    refuse_to_overwrite(output)
    profile = Profile.load(path)
    settings = training.over(profile.training)
    with ExitStack() as stack:
        device = stack.enter_context(closing(machine.open())) if verify else None
        found = prune_model(
            model,
            training.input,
            training=settings,
            profile=profile,
            budget=budget,
            weights=weights,
            confidence=confidence,
            strategy=strategy,
            guide=guide,
            importance=importance,
            least=least,
            round_to=round_to,
            steps=job.length(settings.batch_size),
            data=data,
            fine_tune_steps=fine_tune,
            learning_rate=learning_rate,
            seed=seed,
            verify=verify,
            device=device,
            any_device=any_device,
            effort=care.effort(),
            watch=lambda doing: say(f"{doing} ..."),
        )
    found.save(output)
    say(f"wrote {output}: model.py builds the model, model.safetensors holds its weights")
    if as_json:
        for text in found.warnings:
            say(f"warning: {text}")
        return json_text(found.to_json())
    return repr(found)
