"""How every command runs: its answer, its warnings and its errors, each to its stream."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from ampere.cli.folding import folded
from ampere.cli.streams import silence
from ampere.cli.verbosity import Verbosity, speaking, verbosity
from ampere.core.boundary.fields import LONG_TEXT
from ampere.core.page import printable
from ampere.core.types import Json
from ampere.errors import AmpereError

_EXTRAS = {  # packages that not everybody needs: how they are called, and what brings them
    "torch": ("PyTorch", "torch"),
    "jax": ("JAX", "jax"),
    "flax": ("Flax", "jax"),
    "safetensors": ("safetensors", "prune"),
    "matplotlib": ("matplotlib", "figures"),
    "tensorboard": ("TensorBoard", "tensorboard"),
    "mlflow": ("MLflow", "mlflow"),
    "wandb": ("Weights & Biases", "wandb"),
    "distributed": ("Dask", "fleet"),
    "opentelemetry": ("OpenTelemetry", "opentelemetry"),
}
EVERYWHERE = ("--quiet", "--verbose", "--debug")  # options of `ampere` that commands take, too
PROGRAM = "program"  # the argument that is a command line of its own
BROKEN_PIPE = 141  # what a shell says of a program that SIGPIPE ended


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what has become of the work so far."""


class Answer(str):
    """What a command says, with an exit code that says something as well."""

    code: int

    def __new__(cls, text: str, code: int = 0) -> Answer:
        """A text and a code."""
        answer = super().__new__(cls, text)
        answer.code = code
        return answer


class Shell(TyperCommand):
    """A command that returns its answer as text; what goes wrong becomes one line.

    What is said before the command, as `ampere --quiet profile`, may be said after it as well.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take out what is for all commands; what stands after `--` is for others.

        Neither is it ours behind the name of a program: that one may have a --debug of its own.
        """
        end = args.index("--") if "--" in args else len(args)
        if any(param.name == PROGRAM for param in self.params):
            end = min(end, self._first_argument(args))
        own = [each for each in args[:end] if each not in EVERYWHERE]
        ctx.find_root().params.update({each[2:]: True for each in args[:end] if each in EVERYWHERE})
        rest: list[str] = super().parse_args(ctx, [*own, *args[end:]])
        return rest

    def _first_argument(self, args: Sequence[str]) -> int:
        """Where the options and their values end."""
        valued = {
            name
            for param in self.params
            if param.param_type_name == "option" and not param.is_flag  # type: ignore[attr-defined]
            for name in param.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-"):
            at += 2 if args[at] in valued else 1
        return at

    def invoke(self, ctx: Any) -> None:
        """Run the command and print its answer."""
        root = ctx.find_root().params
        debug = bool(root.get("debug"))
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that has no ×
        for param in self.params:
            _refuse_what_is_no_text(ctx, param)
        try:
            with speaking(_wished(root)):
                answer = self._answer(ctx, debug)
            if answer:  # `ask` has nothing to say when enough is known: an empty file then
                _print(answer, debug)
            if isinstance(answer, Answer) and answer.code:
                raise typer.Exit(answer.code)
        except BrokenPipeError:  # nobody reads on, so nobody is told
            silence(sys.stdout)
            silence(sys.stderr)
            raise typer.Exit(BROKEN_PIPE) from None

    def _answer(self, ctx: Any, debug: bool) -> str:
        try:
            # Whatever a user's model prints must not end up in front of the answer.
            with _warnings_as_lines(), contextlib.redirect_stdout(sys.stderr):
                answer: str = super().invoke(ctx)
                return answer
        except KeyboardInterrupt as interrupt:
            _end(f"interrupted: {interrupt}" if str(interrupt) else "interrupted", 130, debug)
        except AmpereError as error:
            _end(f"error: {error}", 1, debug)
        except ModuleNotFoundError as error:
            package, _, _ = (error.name or "").partition(".")
            if package not in _EXTRAS:
                raise
            title, extra = _EXTRAS[package]
            _end(f"error: this needs {title}: pip install 'ampere-energy[{extra}]'", 1, debug)
        except BrokenPipeError:
            raise
        except OSError as error:  # a disk, a folder or a name that cannot be used
            where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
            _end(f"error: {where}{error.strerror or error}", 1, debug)
        except MemoryError as error:
            _end(f"error: there is not enough memory for this: {error}".rstrip(": "), 1, debug)


def hint(text: str) -> None:
    """Say what helps, but need not be known: not with --quiet."""
    if verbosity() is not Verbosity.QUIET:
        say(text)


def say(text: str) -> None:
    """Print one line to standard error."""
    try:
        line = printable(" ".join(text.split()))
        print(folded(line) if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:  # a full disk: what was asked for is done all the same
        silence(sys.stderr)


def json_text(row: Mapping[str, Json] | Sequence[Json]) -> str:
    """One line of strict JSON; numbers that are not known become null, bytes of no letter ?."""
    text = json.dumps(_without_nan(row), allow_nan=False, ensure_ascii=False)
    return text.encode(errors="replace").decode()


def _wished(root: Mapping[str, Any]) -> Verbosity:
    """How much shall be told, by the options before the command and after it."""
    if root.get("quiet") and root.get("verbose"):
        raise typer.BadParameter("give either --quiet or --verbose")
    if root.get("quiet"):
        return Verbosity.QUIET
    return Verbosity.VERBOSE if root.get("verbose") else Verbosity.USUAL


def _print(answer: str, debug: bool) -> None:
    """Print the answer; where it cannot be, the command has failed."""
    try:
        print(folded(answer) if sys.stdout.isatty() else answer, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        _end(f"error: standard output cannot be written: {error.strerror or error}", 1, debug)


def _refuse_what_is_no_text(ctx: Any, param: Any) -> None:
    """A file may have any bytes for its name; what is kept of it must be text, and no book."""
    value = ctx.params.get(param.name)
    for text in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(text, str) and text != text.encode(errors="replace").decode():
            reason = f"{printable(text)} is no UTF-8 text: rename it"
            raise typer.BadParameter(reason, ctx=ctx, param=param)
        if isinstance(text, str) and len(text) > LONG_TEXT:
            reason = f"that has {len(text):,} letters, more than {LONG_TEXT:,}"
            raise typer.BadParameter(reason, ctx=ctx, param=param)


def _end(text: str, code: int, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
    say(text)
    raise typer.Exit(code)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"warning: {message}")

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def _without_nan(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
