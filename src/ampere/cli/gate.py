"""`ampere gate`: will a training job fit into its budget?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.jobs import Around
from ampere.cli.options import (
    AsJson,
    BatteryWh,
    Job,
    Model,
    ProfilePath,
    Rates,
    TrainingOptions,
    above_zero,
    share,
)
from ampere.cli.shell import Answer, json_text

REFUSED = 1

BudgetText = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="AMOUNT",
        help="800J, 5Wh, 2J/step, '30% battery', 0.5kgCO2e, 1EUR.",
        show_default=False,
    ),
]
MeterText = Annotated[
    str,
    typer.Option("--meter", metavar="METER", help="auto, rapl, tree:idle_w=2.5,active_w=9, ..."),
]
RunFolder = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="Where the run's story is written, for `watch`."),
]
OnExceed = Annotated[str, typer.Option(metavar="WHAT", help="At the budget: stop or warn.")]
Reserve = Annotated[
    float | None,
    typer.Option(metavar="JOULES", help="Kept for saving a checkpoint.", callback=above_zero),
]
SinkNames = Annotated[
    list[str] | None,
    typer.Option("--sink", metavar="SINK", help="Who else is told: csv, tensorboard, mlflow, ..."),
]


def gate(
    model: Model,
    path: ProfilePath,
    training: TrainingOptions,
    budget: BudgetText = None,
    job: Job = Job(),
    around: Around = Around(),
    confidence: Annotated[
        float,
        typer.Option(metavar="SHARE", help="How surely the budget shall hold.", callback=share),
    ] = 0.9,
    devices: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Profiles of other devices that may run it instead."),
    ] = None,
    battery_wh: BatteryWh = None,
    rates: Rates = Rates(),
    as_json: AsJson = False,
) -> str:
    """Will a training job fit into its budget?

    Allows, warns or refuses; says what would fit. Exit code 1 where it is refused.
    """
    from ampere.gates.opening import Wish, look_before
    from ampere.gates.outlook import Decision
    from ampere.gates.suggestions import Asked
    from ampere.gates.terms import Terms
    from ampere.profiles.library import open_library
    from ampere.profiles.profile import Profile

    profile = Profile.load(path, keep_fit=True)
    settings = training.over(profile.training)
    if job.steps is None and job.epochs is None:
        raise typer.BadParameter("how long is the job? give --steps, or --epochs with --samples")
    if budget is None:
        raise typer.BadParameter("which budget? give --budget 5Wh")
    library = None if devices is None else open_library(devices)
    whole = around.job(job)
    asked = Asked(training.named(model), training.input, settings, profile, whole, library)
    wish = Wish(budget, rates.carbon, rates.price, battery_wh)
    outlook = look_before(asked, wish, Terms(confidence=confidence))
    code = REFUSED if outlook.decision is Decision.REFUSE else 0
    return Answer(json_text(outlook.to_json()) if as_json else repr(outlook), code)


GATE = Command(gate, "ampere gate zoo:cnn5 --profile cnn5.ampere --steps 20000 --budget 2Wh")
