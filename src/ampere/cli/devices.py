"""`ampere devices`: a folder of profiles, what is in it, and one model over all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere.cli.command import Command, Group
from ampere.cli.estimate import Subject
from ampere.cli.options import AsJson, Job, Method, TrainingOptions
from ampere.cli.shell import hint, json_text

Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A folder of profiles, *.ampere.", show_default=False),
]


def list_(folder: Folder, as_json: AsJson = False) -> str:
    """Say which profiles a folder has.

    Device, meter and origin of the joules, runtime, number of rows, what each was made for and
    when, and how well its rows agree with each other, leave one out.
    """
    from ampere.profiles.collection.listing import list_profiles, listing_json
    from ampere.profiles.library import open_library

    library = open_library(folder)
    return json_text(listing_json(library)) if as_json else list_profiles(library).text()


def show(
    folder: Folder,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As `list` says it.", show_default=False)
    ],
    as_json: AsJson = False,
) -> str:
    """Say all about one profile of a folder."""
    from ampere.profiles.collection.listing import profile_json, show_profile
    from ampere.profiles.library import open_library

    entry = open_library(folder).find(name)
    return json_text(profile_json(entry)) if as_json else show_profile(entry).text()


def add(
    folder: Folder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The profile's file.", show_default=False)
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What it is called. Default: as FILE is.")
    ] = None,
    as_json: AsJson = False,
) -> str:
    """Copy a profile into a folder, if it can be used.

    It is read to its end and fitted first; one that is there already is refused, under whatever
    name, and nothing is ever overwritten.
    """
    from ampere.profiles.collection.admission import add_profile
    from ampere.profiles.collection.cards import Card, short_error

    card = Card(add_profile(folder, file, name))
    if as_json:
        return json_text(card.to_json())
    return (
        f"added {card.entry.path}: {card.device}, {card.rows} rows, joules {card.joules};"
        f" own error, leave one out: {short_error(card.own_error())}"
    )


def compare(
    folder: Folder,
    subject: Subject,
    training: TrainingOptions,
    job: Job = Job(),
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page, too.")
    ] = None,
    method: Method = "additive",
    as_json: AsJson = False,
) -> str:
    """Estimate a model for every device of a folder, side by side.

    Joules and seconds with intervals, least joules first. All are asked for the same training, by
    default that of most profiles; what is extrapolated, other meters and other runtimes are named.
    """
    from ampere.profiles.collection.comparison import common_training, compare_devices
    from ampere.profiles.library import open_library
    from ampere.reports.html import refuse_to_overwrite

    model = training.named(subject.model or "") or None
    given = TrainingOptions(batch_size=training.batch_size)
    if subject.layers is not None and training != given:
        raise typer.BadParameter("layers say themselves how they are trained: leave that out")
    if job.epochs is not None and subject.layers is not None and training.batch_size is None:
        raise typer.BadParameter("--epochs with --layers needs --batch-size")
    if html is not None:
        refuse_to_overwrite(html)
    library = open_library(folder, method)
    settings = training.over(common_training(library))
    comparison = compare_devices(
        library,
        model or subject.read(),
        training.input,
        training=None if training.untouched else settings,
        steps=job.length(settings.batch_size) or 1,
        name=model or str(subject.layers),
    )
    if html is not None:
        from ampere.reports.comparison_page import report_comparison

        report_comparison(comparison).save(html)
        hint(f"wrote {html}: open it in a browser")
    return json_text(comparison.to_json()) if as_json else repr(comparison)


DEVICES = Group(
    "devices",
    "Keep profiles of many devices, and compare.",
    (
        Command(list_, "ampere devices list fleet"),
        Command(show, "ampere devices show fleet xavier"),
        Command(add, "ampere devices add fleet laptop.ampere --name laptop-2-threads"),
        Command(compare, "ampere devices compare fleet zoo:lenet5 --html fleet.html"),
    ),
)
