"""`ampere watch`: pages of runs, live."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.shell import json_text, say
from ampere.errors import DataError

if TYPE_CHECKING:
    from ampere.reports.live.watch import Watch

PORT = 8473  # where a page is found again; any other if it is taken


def watch(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders of runs, or their files; they need not be there yet.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen: 0.0.0.0 lets others in.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="0 takes any that is free.", show_default=str(PORT)),
    ] = None,
    once: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the page of this moment to a file, and end."),
    ] = None,
    as_json: AsJson = False,
) -> str:
    """Show runs while they train, in a browser.

    Follows what gates append to RUN/gate.jsonl, from a process of its own: runs that go on, that
    have ended and that crashed, many side by side. Ctrl-C ends it; no run notices. With --json:
    how they stand now, without pages.
    """
    from ampere.core.boundary.files import is_there
    from ampere.reports.live.desk import save_snapshot
    from ampere.reports.live.watch import Watch

    missing = [path for path in runs if not is_there(path)]
    watched = Watch(runs)
    if once is not None:
        save_snapshot(watched, once)
    if as_json:
        page = None if once is None else str(once)
        return json_text({"page": page, "runs": watched.to_json()})
    if once is not None:
        return f"wrote {once}: open it in a browser"
    for path in missing:
        say(f"{path} is not there yet: waiting for it")
    _serve(watched, host, port)
    return ""


def _serve(watched: Watch, host: str, port: int | None) -> None:
    """Serve pages until Ctrl-C, which is how this ends, and no failure."""
    from ampere.reports.live.desk import Desk
    from ampere.reports.live.door import Door
    from ampere.reports.live.server import WatchServer

    desk, door = Desk(watched), Door.at(host)
    try:
        server = WatchServer(desk, door, PORT if port is None else port)
    except DataError:
        if port is not None:
            raise
        server = WatchServer(desk, door, 0)
    say(f"open {server.url} in a browser; Ctrl-C ends it")
    if door.token is not None:
        say("whoever has this address can read the pages, and others on the way, too: no TLS")
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()


WATCH = Command(watch, "ampere watch runs")
