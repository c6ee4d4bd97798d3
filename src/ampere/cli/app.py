"""The application: what holds for all commands, and the list of them."""

from __future__ import annotations

from typing import Annotated

import typer

from ampere import __version__
from ampere.cli.align import align, pulse
from ampere.cli.ask import ask
from ampere.cli.calibrate import calibrate
from ampere.cli.check import check
from ampere.cli.command import Command, installed_commands
from ampere.cli.estimate import estimate
from ampere.cli.evaluate import evaluate
from ampere.cli.layers import layers
from ampere.cli.measure import measure
from ampere.cli.meters import meters
from ampere.cli.options import flat
from ampere.cli.profile import profile
from ampere.cli.prune import prune
from ampere.cli.report import report
from ampere.cli.shell import Shell
from ampere.cli.tell import tell

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)

_OWN = (
    Command(meters, "ampere meters"),
    Command(layers, "ampere layers 'zoo:cnn5(channels=[16,32,64,64])'"),
    Command(profile, "ampere profile zoo:lenet5 --profile lenet5.ampere --time-limit 300"),
    Command(
        estimate, "ampere estimate zoo:lenet5 --profile lenet5.ampere --epochs 3 --samples 60000"
    ),
    Command(measure, "ampere measure my_model.py:Net --input 3x32x32 --batch-size 32"),
    Command(evaluate, "ampere evaluate zoo:lenet5 --profile lenet5.ampere --models 30"),
    Command(
        prune, "ampere prune zoo:cnn5 --weights cnn5.pt --profile cnn5.ampere --budget 50% -o half"
    ),
    Command(report, "ampere report cnn5.ampere -o report.html"),
    Command(check, "ampere check --threads 1"),
    Command(ask, "ampere ask zoo:lenet5 --profile phone.ampere -n 8 > todo.jsonl"),
    Command(tell, "ampere tell --profile phone.ampere done.jsonl"),
    Command(align, "ampere align --profile pi.ampere --log monsoon.csv -o pi-measured.ampere"),
    Command(pulse, "ampere pulse"),
    Command(calibrate, "ampere calibrate --watts 0=2.7 --watts 4=6.4"),
)

for command in (*_OWN, *installed_commands()):
    # \b keeps the line of the example as it is
    epilog = f"\b\nExample:\n  {command.example}"
    app.command(command.name, cls=Shell, epilog=epilog)(flat(command.run))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ampere {__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Energy and time that training a neural network will cost on a device, before running it."""
