"""The application: what holds for all commands, and the list of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ampere import __version__
from ampere.cli.align import ALIGN, PULSE
from ampere.cli.ask import ASK
from ampere.cli.calibrate import CALIBRATE
from ampere.cli.card import CARD
from ampere.cli.check import CHECK
from ampere.cli.command import Command, Group, flat, installed_commands
from ampere.cli.devices import DEVICES
from ampere.cli.doctor import DOCTOR
from ampere.cli.estimate import ESTIMATE
from ampere.cli.evaluate import EVALUATE
from ampere.cli.fleet import FLEET
from ampere.cli.gate import GATE
from ampere.cli.layers import LAYERS
from ampere.cli.measure import MEASURE
from ampere.cli.meters import METERS
from ampere.cli.profile import PROFILE
from ampere.cli.prune import PRUNE
from ampere.cli.report import REPORT
from ampere.cli.run import RUN
from ampere.cli.runtimes import RUNTIMES
from ampere.cli.schedule import SCHEDULE
from ampere.cli.shell import Shell
from ampere.cli.survey import SURVEY
from ampere.cli.tell import TELL
from ampere.cli.watch import WATCH
from ampere.cli.zoo import ZOO

COMMANDS: tuple[Command | Group, ...] = (  # in the order of `ampere --help`
    DOCTOR,
    METERS,
    RUNTIMES,
    ZOO,
    LAYERS,
    PROFILE,
    SURVEY,
    ESTIMATE,
    MEASURE,
    EVALUATE,
    PRUNE,
    GATE,
    RUN,
    SCHEDULE,
    REPORT,
    WATCH,
    CARD,
    CHECK,
    DEVICES,
    FLEET,
    ASK,
    TELL,
    ALIGN,
    PULSE,
    CALIBRATE,
)

SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["--help", "-h"]},
}
app = typer.Typer(**{**SETTINGS, "no_args_is_help": False, "add_completion": True})

GREETING = """\
ampere estimates the energy of training a neural network before you run it.

To start with:
  ampere doctor                                       what this machine has, and lacks
  ampere profile zoo:lenet5 --profile lenet5.ampere   learn what layers cost here, once
  ampere estimate zoo:lenet5 --profile lenet5.ampere  ask what training will cost

All commands: ampere --help"""


def _add(home: typer.Typer, command: Command) -> None:
    # \b keeps the line of the example as it is
    epilog = f"\b\nExample:\n  {command.example}"
    home.command(command.name, cls=Shell, epilog=epilog)(flat(command.run))


def _add_group(group: Group) -> None:
    examples = "".join(f"\n  {command.example}" for command in group.commands)
    home = typer.Typer(name=group.name, help=group.summary, **SETTINGS)
    for command in group.commands:
        _add(home, command)
    app.add_typer(home, epilog=f"\b\nExamples:{examples}")


for each in (*COMMANDS, *installed_commands([each.name for each in COMMANDS])):
    if isinstance(each, Group):
        _add_group(each)
    else:
        _add(app, each)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ampere {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress and no hints: warnings and errors only.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Every step of progress, a line each, in full.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Energy and time that training a neural network will cost on a device, before running it."""
    if ctx.invoked_subcommand is None:
        typer.echo(GREETING)
