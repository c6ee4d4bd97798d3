"""`ampere schedule`: which device of a fleet trains what, and when."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson, share
from ampere.cli.shell import Answer, hint, json_text

if TYPE_CHECKING:
    from ampere.fleet.member import Fleet
    from ampere.fleet.plan import Plan
    from ampere.fleet.runs.book import Book
    from ampere.fleet.task import Task

NOT_ALL = 3  # some jobs fit nowhere; the plan of the others is written


def schedule(
    fleet: Annotated[
        Path,
        typer.Argument(metavar="FLEET", help="The devices: fleet.toml.", show_default=False),
    ],
    jobs: Annotated[
        Path, typer.Argument(metavar="JOBS", help="What to train: jobs.toml.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The plan to write: plan.json."),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="How surely each battery shall hold for its whole queue, each deadline be kept.",
            callback=share,
        ),
    ] = 0.9,
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What there shall be little of: energy, carbon, price or makespan; or weights:"
            " energy=1,makespan=0.2.",
        ),
    ] = "energy",
    begins: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="When the plan begins: 2026-05-01T08:00:00Z. Default: now."
        ),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Plan what a run has left: the folder of its logbook, as `ampere fleet run` keeps"
            " it.",
            show_default=False,
        ),
    ] = None,
    charged: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEMBER",
            help="With --after: its battery holds what FLEET says, whatever the logbook told last.",
            show_default=False,
        ),
    ] = None,
    load_models: Annotated[
        bool,
        typer.Option(
            "--load-models",
            help="JOBS may name models that are code (net.py:Net), which runs when it is loaded.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> str:
    """Plan which device trains what, and when.

    With as few joules as possible. Every battery holds for its whole queue, and every deadline is
    kept, each with the asked probability. Exit code 3 where some jobs fit nowhere: the plan of all
    others is printed and written all the same, with the least change that would let them fit.

    With --after, what ran is left out, batteries are as its logbook told last (but those that were
    --charged), and plans know what was metered; times in both files count from when the run began.
    """
    from ampere.fleet.files.jobs import read_jobs
    from ampere.fleet.files.members import read_fleet
    from ampere.fleet.runs.logbook import read_logbook
    from ampere.fleet.schedule import schedule as make_plan
    from ampere.records.measurement import utc_now

    if output is not None:
        _refuse_what_is_no_plan(output)
    if charged and after is None:
        raise typer.BadParameter("--charged goes with --after: without it, FLEET counts anyway")
    goal, begins = _weights(objective), begins or utc_now()  # once: files may name moments
    book = None if after is None else read_logbook(after)
    zero = begins if book is None else book.opened.begins
    members = read_fleet(fleet, begins=zero)
    tasks = read_jobs(jobs, members, load_models=load_models, begins=zero)
    if book is None:
        plan = make_plan(members, tasks, confidence=confidence, objective=goal, begins=begins)
    else:
        plan = _rest(book, members, tasks, begins, confidence, goal, charged or [])
    text = json_text(plan.to_json())
    if output is not None:
        _write(output, text)
        hint(f"wrote {output}: `ampere report {output} -o plan.html` shows it")
    return Answer(text if as_json else repr(plan), _code(plan))


def _rest(
    book: Book,
    fleet: Fleet,
    tasks: list[Task],
    begins: str,
    confidence: float,
    objective: str | dict[str, float],
    charged: list[str],
) -> Plan:
    """What a run has left, of the same jobs and devices."""
    from ampere.fleet.runs.sequel import plan_after
    from ampere.integrations.fleet_jobs import work_of

    opened = work_of(fleet, tasks).opened(fleet, book.opened.run, book.opened.begins)
    return plan_after(
        book,
        fleet,
        tasks,
        opened,
        begins=begins,
        confidence=confidence,
        objective=objective,
        charged=charged,
    )


def _code(plan: Plan) -> int:
    return NOT_ALL if plan.unplaced else 0


def _weights(text: str) -> str | dict[str, float]:
    """One name, or names with their weights."""
    if "=" not in text:
        return text.strip()
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, said = (each.strip() for each in part.partition("="))
        try:
            weights[name] = float(said)
        except ValueError:
            weights[name] = math.nan
        if not math.isfinite(weights[name]):
            raise typer.BadParameter(f"{part.strip()!r} is no weight: write energy=1,makespan=0.2")
    return weights


def _refuse_what_is_no_plan(path: Path) -> None:
    """A plan that is there is replaced, as plans are made anew; nothing else is."""
    from ampere.core.boundary.files import is_there
    from ampere.errors import DataError
    from ampere.fleet.plan import is_plan

    if path.is_dir():
        raise DataError(f"{path} is a folder: give the name of a file, such as plan.json")
    if is_there(path) and path.is_file() and not is_plan(path):
        raise DataError(f"{path} exists, and is no plan: choose another name, or remove it first")
    if not path.absolute().parent.is_dir():
        raise DataError(f"cannot write {path}: {path.parent} is no folder")


def _write(path: Path, text: str) -> None:
    from ampere.core.boundary.files import write_whole
    from ampere.errors import DataError

    try:
        write_whole(path, f"{text}\n")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None


SCHEDULE = Command(schedule, "ampere schedule fleet.toml jobs.toml -o plan.json")
