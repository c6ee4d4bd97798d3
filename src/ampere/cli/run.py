"""`ampere run`: any training program under an energy budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.gate import BudgetText, MeterText, OnExceed, Reserve, RunFolder, SinkNames
from ampere.cli.options import STEPS, BatteryWh, Rates, at_most, not_below_zero
from ampere.cli.shell import Answer, hint, say
from ampere.cli.streams import answer_number
from ampere.core import units

Program = Annotated[
    list[str], typer.Argument(metavar="-- PROGRAM ...", help="What to run.", show_default=False)
]


def run(
    program: Program,
    budget: BudgetText = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Steps of the whole run.", callback=at_most(STEPS)),
    ] = None,
    progress_pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Where its output tells the step: 'step (\\d+)', or 'step (\\d+)/(\\d+)'.",
        ),
    ] = None,
    progress_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file in which it writes its step, or step/steps."),
    ] = None,
    meter: MeterText = "auto",
    folder: RunFolder = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run of --run: its joules are spent.")
    ] = False,
    on_exceed: OnExceed = "stop",
    reserve: Reserve = None,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="From SIGTERM to SIGKILL at the budget.",
            callback=not_below_zero,
        ),
    ] = 30.0,
    keep_memory: Annotated[
        bool,
        typer.Option(
            "--keep-memory",
            help="Let it keep freed memory for the next step (glibc), as networks do that are"
            " measured: up to a quarter less.",
        ),
    ] = False,
    battery_wh: BatteryWh = None,
    rates: Rates = Rates(),
    sink: SinkNames = None,
) -> str:
    """Run a training program under an energy budget.

    Counts the joules of the program and of all that it starts, or of the machine, as the meter
    tells; ends it by SIGTERM, and after a while by SIGKILL, before the budget is exceeded. Exit
    code: the program's own, or 75 if the budget ended it.
    """
    from ampere.gates.opening import Wish, open_gate
    from ampere.gates.script import STOPPED, Script
    from ampere.gates.terms import Terms

    script = Script(
        tuple(program),
        progress_pattern,
        progress_file,
        grace_s=grace,
        output=answer_number(),
        keep_memory=keep_memory,
    )
    gate = open_gate(
        Wish(budget, rates.carbon, rates.price, battery_wh),
        Terms(steps=steps, on_exceed=on_exceed, reserve_j=reserve or 0.0),
        meter=meter,
        run=folder,
        sinks=tuple(sink or ()),
        name=" ".join(program)[:200],
        resume=resume,
    )
    code = script.run(gate)
    spent = f"{units.joules(gate.spent_j)} ({units.watt_hours(gate.spent_j)})"
    of = f" of {gate.terms.budget_text}" if gate.terms.budget_j is not None else ""
    told = f"{spent}{of}; joules are {gate.provenance.origin}"
    say(f"ampere: {told if gate.metered else 'nothing was metered'}")
    if code == STOPPED and folder is not None:
        hint(f"ampere: to go on: the same command with --resume and a larger --budget ({folder})")
    return Answer("", code)


RUN = Command(run, "ampere run --budget 5Wh -- python train.py")
