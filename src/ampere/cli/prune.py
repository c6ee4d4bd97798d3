"""`ampere prune`: cut a model to an energy budget."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import (
    MANY,
    SEEDS,
    STEPS,
    AsJson,
    BatteryWh,
    Care,
    Job,
    Machine,
    MixDevices,
    Model,
    ProfilePath,
    Rates,
    TrainingOptions,
    above_zero,
    at_most,
)
from ampere.cli.shell import hint, json_text, say
from ampere.errors import DataError

if TYPE_CHECKING:
    from ampere.core.budget import Budget as Settled
    from ampere.pruning.judge import Judging
    from ampere.pruning.result import Pruning
    from ampere.pruning.search import Search
    from ampere.pruning.verify import Verification


Budget = Annotated[
    str,
    typer.Option(
        metavar="BUDGET",
        help="50% of the model's own energy, 2J/step, or for a whole job 800J, 5Wh, 30% battery,"
        " 0.5kgCO2e or 1EUR.",
    ),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="A new folder for the model.")
]
Weights = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Its weights: safetensors, or a state_dict of torch."),
]


@dataclass(frozen=True)
class SearchOptions:
    """How widths are looked for."""

    confidence: Annotated[
        float, typer.Option(metavar="SHARE", help="How surely the budget holds, from 0.5 on.")
    ] = 0.9
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="random, gradient or evolution.")
    ] = "random"
    guide: Annotated[
        str, typer.Option(metavar="NAME", help="energy, or flops to compare with.")
    ] = "energy"
    importance: Annotated[
        str, typer.Option(metavar="NAME", help="Which channels stay: l2, l1, bn or random.")
    ] = "l2"
    least: Annotated[
        float, typer.Option(metavar="SHARE", help="What stays of every width at least.")
    ] = 0.1
    round_to: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Widths in multiples of N. Default: as it can.",
            callback=at_most(MANY),
        ),
    ] = None

    def search(self) -> Search:
        """For `prune`."""
        from ampere.pruning.search import Search

        return Search(**asdict(self))


@dataclass(frozen=True)
class JudgingOptions:
    """What candidates are judged by."""

    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="To score and fine-tune on: digits, celeba:DIR or path/file.py:function.",
        ),
    ] = None
    fine_tune: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Steps of fine-tuning, with --data.", callback=at_most(STEPS)
        ),
    ] = 0
    learning_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Of fine-tuning.", callback=above_zero),
    ] = None

    def judging(self) -> Judging:
        """For `prune`."""
        from ampere.pruning.judge import Judging

        return Judging(
            data=self.data, fine_tune_steps=self.fine_tune, learning_rate=self.learning_rate
        )


Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Of everything that is random.", callback=at_most(SEEDS)),
]


def prune(
    model: Model,
    path: ProfilePath,
    budget: Budget,
    output: Output,
    training: TrainingOptions,
    weights: Weights = None,
    searching: SearchOptions = SearchOptions(),
    judging: JudgingOptions = JudgingOptions(),
    job: Job = Job(),
    battery_wh: BatteryWh = None,
    rates: Rates = Rates(),
    seed: Seed = 0,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Meter the best beside the model, and look on by that."),
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

    if not verify and (machine != Machine() or care != Care()):
        raise typer.BadParameter("--device, its settings and how it measures go with --verify")
    refuse_to_overwrite(output)
    limit = _settled(budget, battery_wh, rates)
    profile = Profile.load(path, keep_fit=True)
    settings = training.over(profile.training)
    with ExitStack() as stack:
        pruning = prune_model(
            training.named(model),
            training.input,
            training=settings,
            profile=profile,
            budget=limit,
            steps=job.length(settings.batch_size),
            weights=weights,
            search=searching.search(),
            judging=judging.judging(),
            verification=_verification(stack, machine, care, any_device) if verify else None,
            seed=seed,
            folder=output,
            watch=lambda doing: hint(f"{doing} ..."),
        )
    _save(pruning, output)
    hint(f"wrote {output}: model.py builds the model, model.safetensors holds its weights")
    if as_json:
        for text in pruning.warnings:
            say(f"warning: {text}")
        return json_text(pruning.to_json())
    return repr(pruning)


def _settled(budget: str, battery_wh: float | None, rates: Rates) -> Settled:
    """The budget in joules, by what the battery holds or by the rates; else it is refused."""
    from ampere.core.budget import parse_budget

    carbon, price = rates.read()
    battery_j = None if battery_wh is None else 3600 * battery_wh
    return parse_budget(budget).settled(battery_j=battery_j, carbon=carbon, price=price)


def _save(pruning: Pruning, output: Path) -> None:
    """Write it where it was wanted, or else where there is room: an hour of work is not lost."""
    try:
        pruning.save(output)
    except DataError as error:
        try:
            spare = Path(tempfile.mkdtemp(prefix="ampere-"))
            pruning.save(spare)
        except (DataError, OSError) as again:
            raise DataError(f"{error}; nor can it be kept elsewhere: {again}") from None
        raise DataError(f"{error}; the model is in {spare} instead: move it from there") from None


def _verification(stack: ExitStack, machine: Machine, care: Care, any_device: bool) -> Verification:
    """On the device that was asked for; the stack closes it."""
    from ampere.pruning.verify import VERIFYING, Verification

    device = stack.enter_context(closing(machine.open()))
    return Verification(device, any_device, care.effort() or VERIFYING)


PRUNE = Command(
    prune,
    "ampere prune zoo:cnn5 --weights cnn5.safetensors --profile cnn5.ampere --budget 50% -o half",
)
