"""`ampere fleet`: have a plan run by many devices, on Dask."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command, Group
from ampere.cli.options import LARGE, THREADS, AsJson, at_most, not_below_zero
from ampere.cli.shell import Answer, Interrupted, hint, json_text, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ampere.fleet.member import Fleet
    from ampere.fleet.runs.book import Book
    from ampere.fleet.task import Task
    from ampere.integrations.dask import Place

Address = Annotated[
    str, typer.Option("--at", metavar="ADDRESS", help="Where the scheduler listens.")
]
Certificates = Annotated[
    Path | None,
    typer.Option(
        "--tls",
        metavar="DIR",
        help="cert.pem and key.pem (and ca.pem): needed beyond this machine.",
    ),
]
Patience = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="How long others are waited for.", callback=not_below_zero
    ),
]
FleetFile = Annotated[
    Path, typer.Argument(metavar="FLEET", help="fleet.toml: its devices.", show_default=False)
]


def _joules(value: float | None) -> float | None:
    """Refuse what no battery holds."""
    if value is not None and not 0 <= value <= LARGE:
        raise typer.BadParameter(f"{value:g} is not a number from 0 to {LARGE:g}")
    return value


HERE = "here"
LOCAL = "127.0.0.1:8786"
UNFINISHED = 1
EVER = "2000-01-01T00:00:00Z"  # whoever only starts workers does not mind what has passed since


def up(
    fleet: FleetFile,
    at: Address = LOCAL,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="here",
            help="Start a worker for each member on this machine, with simulated joules.",
        ),
    ] = None,
    keep: Annotated[
        Path, typer.Option(metavar="DIR", help="Where such workers keep what they have.")
    ] = Path("fleet-workers"),
    tls: Certificates = None,
) -> str:
    """Start a scheduler that devices of a fleet can join.

    It runs until Ctrl-C. It decides nothing: `ampere fleet run` does, and keeps the logbook. If it
    is killed, start it again: workers and runs wait for it.
    """
    from ampere.fleet.files.members import read_fleet
    from ampere.integrations.crew import Crew
    from ampere.integrations.dask import serve_scheduler

    if workers not in (None, HERE):
        raise typer.BadParameter(f"{workers!r} is not here: leave it out, or write --workers here")
    place = _place(at, tls)
    members = read_fleet(fleet, begins=EVER)
    crew = Crew(members, keep, say) if workers == HERE else None

    def ready(address: str) -> None:
        say(f"a scheduler listens at {address}: Ctrl-C ends it")
        if crew is not None:
            crew.start(_place(address, tls))
            return
        for member in members:
            say(f"on {member.name}: ampere fleet join {member.name} --at {address} --device local")

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the crew goes with it
    try:
        serve_scheduler(place, ready)
    except KeyboardInterrupt:
        raise Interrupted("the scheduler is ended; runs and workers wait for another one") from None
    finally:
        if crew is not None:
            crew.end()
    return "the scheduler has ended"


def join(
    member: Annotated[
        str, typer.Argument(metavar="MEMBER", help="Its name in the fleet.", show_default=False)
    ],
    at: Address = LOCAL,
    device: Annotated[
        str, typer.Option(metavar="DEVICE", help="local, or simulated:xavier for trying.")
    ] = "local",
    meter: Annotated[str, typer.Option(metavar="METER", help="Of local: as for profile.")] = "auto",
    accelerator: Annotated[
        str, typer.Option(metavar="NAME", help="cpu, cuda or mps: as its profile was measured.")
    ] = "cpu",
    threads: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="As its profile was measured.", callback=at_most(THREADS)
        ),
    ] = 1,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where it keeps what it has. Default: ampere-MEMBER."),
    ] = None,
    battery_j: Annotated[
        float | None,
        typer.Option(metavar="JOULES", help="Of a battery, at first.", callback=_joules),
    ] = None,
    charged_j: Annotated[
        float | None,
        typer.Option(metavar="JOULES", help="Of a battery that was charged.", callback=_joules),
    ] = None,
    reserve_j: Annotated[
        float,
        typer.Option(metavar="JOULES", help="What must stay in it.", callback=_joules),
    ] = 0.0,
    tls: Certificates = None,
    patience: Patience = 300.0,
) -> str:
    """Let this device join a fleet as a worker.

    It trains what it is sent, one chunk at a time. It sends its fingerprint, joules and
    checkpoints; it is sent networks as data, never code.
    """
    from ampere.core.workloads import Settings
    from ampere.integrations.crew import folder_of
    from ampere.integrations.dask import serve_station
    from ampere.integrations.purses import open_purse
    from ampere.integrations.station import Station

    place = _place(at, tls)
    settings = Settings(accelerator=accelerator, threads=threads)
    purse = open_purse(device, meter, settings)
    folder = keep or Path(f"ampere-{folder_of(member)}")
    station = Station(
        member,
        purse,
        folder,
        battery_j=battery_j,
        charged_j=charged_j,
        reserve_j=reserve_j,
        settings=settings,
    )
    try:
        serve_station(station, place, patience_s=patience, say=say)
    except KeyboardInterrupt:
        say(f"interrupted: {member} has left; what it has is in {folder}")
        os._exit(130)  # a thread may be in the middle of a chunk: what it has is on the disk
    finally:
        station.close()
    return f"{member} has left"


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="plan.json.", show_default=False)],
    fleet: Annotated[Path, typer.Option(metavar="FILE", help="fleet.toml.", show_default=False)],
    jobs: Annotated[Path, typer.Option(metavar="FILE", help="jobs.toml.", show_default=False)],
    keep: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the logbook and checkpoints are.")
    ] = Path("fleet-run"),
    at: Address = LOCAL,
    tls: Certificates = None,
    patience: Patience = 60.0,
    load_models: Annotated[
        bool, typer.Option("--load-models", help="Jobs may name models that are code, run here.")
    ] = False,
    tell: Annotated[
        bool,
        typer.Option(
            "--tell",
            help="Add what was metered of jobs that are done to the profiles' files; what they"
            " have already is left out.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> str:
    """Have a plan run by the devices of a fleet.

    One chunk of a job a device, checkpointed, every joule in a logbook. Devices that are lost,
    batteries that are flat and estimates that were too low have the rest planned again. Whatever is
    killed: give the same command again, and it goes on from the logbook. A plan by `ampere schedule
    --after` takes the place of an older one. Exit code 1 while jobs are left.
    """
    from ampere.fleet.files.jobs import read_jobs
    from ampere.fleet.files.members import read_fleet
    from ampere.fleet.plan import read_plan
    from ampere.fleet.runs.logbook import begun_at
    from ampere.fleet.runs.overview import overview, overview_json
    from ampere.integrations.dask import run_fleet
    from ampere.integrations.fleet_jobs import open_run

    place = _place(at, tls)
    planned = read_plan(plan)
    zero = begun_at(keep) or planned.begins
    members = read_fleet(fleet, begins=zero)
    tasks = read_jobs(jobs, members, load_models=load_models, begins=zero)
    with open_run(keep, planned, members, tasks, patience_s=patience, say=say) as runner:
        try:
            ended = runner.settled or run_fleet(runner, place, patience_s=patience, say=say)
        except KeyboardInterrupt:
            raise Interrupted(f"the same command goes on from {keep}") from None
        book, trained = runner.book, runner.work.tasks
    _teach(book, members, trained, fleet, tell)
    text = json_text(overview_json(book)) if as_json else overview(book).text()
    return Answer(text, 0 if ended else UNFINISHED)


def _teach(book: Book, fleet: Fleet, tasks: Sequence[Task], path: Path, tell: bool) -> None:
    """Have profiles learn what was metered, or say how."""
    from ampere.fleet.files.members import profile_files
    from ampere.fleet.runs.lessons import lessons_of, tell_profiles

    rows, notes = lessons_of(book, fleet, tasks)
    for text in notes:
        say(text)
    if tell:
        for text in tell_profiles(rows, profile_files(path)):
            say(text)
    elif rows:
        hint("profiles are as they were: the same command with --tell adds what was metered")


def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the logbook is.")] = Path(
        "fleet-run"
    ),
    as_json: AsJson = False,
) -> str:
    """Say how a run stands.

    From its logbook alone: also while it runs, or after a crash.
    """
    from ampere.fleet.runs.logbook import read_logbook
    from ampere.fleet.runs.overview import overview, overview_json

    book = read_logbook(folder)
    return json_text(overview_json(book)) if as_json else overview(book).text()


def _place(at: str, tls: Path | None) -> Place:
    from ampere.integrations.dask import Place

    return Place.parse(at, tls)


FLEET = Group(
    "fleet",
    "Have a plan run by many devices, on Dask.",
    (
        Command(up, "ampere fleet up fleet.toml --workers here"),
        Command(join, "ampere fleet join pi --at tls://10.0.0.5:8786 --tls certificates"),
        Command(run, "ampere fleet run plan.json --fleet fleet.toml --jobs jobs.toml"),
        Command(status, "ampere fleet status fleet-run"),
    ),
)
