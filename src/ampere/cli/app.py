"""The application: what holds for all commands, and the list of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ampere import __version__
from ampere.cli.align import align, pulse
from ampere.cli.ask import ask
from ampere.cli.calibrate import calibrate
from ampere.cli.check import check
from ampere.cli.estimate import estimate
from ampere.cli.evaluate import evaluate
from ampere.cli.layers import layers
from ampere.cli.measure import measure
from ampere.cli.meters import meters
from ampere.cli.options import flat
from ampere.cli.profile import profile
from ampere.cli.prune import prune
from ampere.cli.report import report
from ampere.cli.reproduce import reproduce
from ampere.cli.shell import Shell
from ampere.cli.tell import tell

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)

_EXAMPLES: dict[Callable[..., str], str] = {
    meters: "ampere meters",
    layers: "ampere layers 'zoo:cnn5(channels=[16,32,64,64])'",
    profile: "ampere profile zoo:lenet5 --profile lenet5.ampere --time-limit 300",
    estimate: "ampere estimate zoo:lenet5 --profile lenet5.ampere --epochs 3 --samples 60000",
    measure: "ampere measure my_model.py:Net --input 3x32x32 --batch-size 32",
    evaluate: "ampere evaluate zoo:lenet5 --profile lenet5.ampere --models 30",
    prune: "ampere prune zoo:cnn5 --weights cnn5.pt --profile cnn5.ampere --budget 50% -o half",
    report: "ampere report cnn5.ampere -o report.html",
    check: "ampere check --threads 1",
    ask: "ampere ask zoo:lenet5 --profile phone.ampere -n 8 > todo.jsonl",
    tell: "ampere tell --profile phone.ampere done.jsonl",
    align: "ampere align --profile pi.ampere --log monsoon.csv -o pi-measured.ampere",
    pulse: "ampere pulse",
    calibrate: "ampere calibrate --watts 0=2.7 --watts 4=6.4",
    reproduce: "ampere reproduce --quick --device simulated -o results",
}

for command, example in _EXAMPLES.items():
    # \b keeps the line of the example as it is
    app.command(cls=Shell, epilog=f"\b\nExample:\n  {example}")(flat(command))


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
