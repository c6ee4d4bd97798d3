"""Progress on standard error: a bar on a terminal, else a line for each event."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ampere.cli.shell import say
from ampere.cli.verbosity import Verbosity, verbosity
from ampere.core import units
from ampere.core.shown.letters import printable, shortened

if TYPE_CHECKING:
    from ampere.acquisition.progress import Event, Watch

PAUSE_S = 0.25
LONGEST = 100  # characters of a line that says what is done; --verbose shows all


@contextmanager
def progress() -> Iterator[Watch]:
    """A watch that shows what is being measured.

    Nothing is drawn by a timer: it is drawn between measurements, when an event comes, and at most
    four times a second. The machine that would draw is the one that is being timed. With --quiet
    nothing is shown, with --verbose every event is a line.
    """
    told = verbosity()
    if told is Verbosity.QUIET:
        yield lambda event: None
        return
    in_full = told is Verbosity.VERBOSE
    with _bar() if sys.stderr.isatty() and not in_full else _lines(in_full) as show:
        last_s = -PAUSE_S

        def watch(event: Event) -> None:
            nonlocal last_s
            now_s = time.monotonic()
            if in_full or now_s - last_s >= PAUSE_S or event.done >= event.total:
                last_s = now_s
                show(event)

        yield watch


@contextmanager
def _lines(in_full: bool) -> Iterator[Watch]:
    def show(event: Event) -> None:
        doing = event.doing if in_full else shortened(event.doing, LONGEST)
        say(f"{event.done}/{event.total} {doing} {_left(event)}")

    yield show


@contextmanager
def _bar() -> Iterator[Watch]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Column

    columns = (
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True)),
    )
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, auto_refresh=False, transient=True, expand=True)
    with bar:
        task = bar.add_task("starting", total=None, left="")

        def show(event: Event) -> None:
            bar.update(
                task,
                total=event.total,
                completed=event.done,
                description=escape(printable(event.doing)),
                left=_left(event),
                refresh=True,
            )

        yield show


def _left(event: Event) -> str:
    whole = round(event.seconds_left)
    if whole < 1:
        return ""
    return f"({f'{whole} s' if whole < 60 else units.seconds(whole)} left)"
