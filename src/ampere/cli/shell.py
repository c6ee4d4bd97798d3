"""How every command runs: its answer, its warnings and its errors, each to its stream."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from ampere.core.page import printable
from ampere.core.types import Json
from ampere.errors import AmpereError

_EXTRAS = {  # packages that not everybody needs: how they are called, and what brings them
    "torch": ("PyTorch", "torch"),
    "safetensors": ("safetensors", "prune"),
    "matplotlib": ("matplotlib", "figures"),
}
BROKEN_PIPE = 141  # what a shell says of a program that SIGPIPE ended


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what has become of the work so far."""


class Shell(TyperCommand):
    """A command that returns its answer as text; what goes wrong becomes one line."""

    def invoke(self, ctx: Any) -> None:
        """Run the command and print its answer."""
        debug = bool(ctx.find_root().params.get("debug"))
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that has no ×
        try:
            # Whatever a user's model prints must not end up in front of the answer.
            with _warnings_as_lines(), contextlib.redirect_stdout(sys.stderr):
                answer = super().invoke(ctx)
            if answer:  # `ask` has nothing to say when enough is known: an empty file then
                print(answer, flush=True)
        except BrokenPipeError:
            # Python would complain once more when it closes the streams at its end.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.dup2(null, sys.stderr.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
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


def say(text: str) -> None:
    """Print one line to standard error."""
    print(printable(" ".join(text.split())), file=sys.stderr, flush=True)


def json_text(row: Mapping[str, Json]) -> str:
    """One line of strict JSON; numbers that are not known become null."""
    return json.dumps(_without_nan(row), allow_nan=False, ensure_ascii=False)


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
