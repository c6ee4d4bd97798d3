"""Lessons: what the jobs of a run took, as rows for the profiles of its members.

While a run goes on its plans learn from what was metered, and files stay as they are. Afterwards
the same joules may be told to the files: of jobs that are done, so that a row is the same whenever
it is made, and a profile takes it once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ampere.acquisition.exchange import add_rows
from ampere.core.units import plural
from ampere.errors import AmpereError, DataError
from ampere.fleet.member import Fleet, Member
from ampere.fleet.replan import lesson_of
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.remainder import done_by
from ampere.fleet.task import Task
from ampere.records.measurement import Measurement


def lessons_of(
    book: Book, fleet: Fleet, tasks: Sequence[Task]
) -> tuple[dict[str, list[Measurement]], list[str]]:
    """Rows for each member, a job each, and why others are none."""
    by_name = {task.name: task for task in tasks}
    members = {member.name: member for member in fleet}
    rows: dict[str, list[Measurement]] = defaultdict(list)
    notes = []
    for done in done_by(book):
        if book.jobs[done.job].left or done.job not in by_name or done.member not in members:
            continue
        try:
            row = lesson_of(members[done.member], by_name[done.job], done, f"run {book.opened.run}")
            if not by_name[done.job].job.is_plain:
                _refuse_again(members[done.member], row)
            rows[done.member].append(replace(row, when=book.opened.begins))
        except AmpereError as error:
            notes.append(f"what {done.job} took on {done.member} is not told: {error}")
    return dict(rows), notes


def _refuse_again(member: Member, row: Measurement) -> None:
    """What validation took is estimated, by a profile that has learned since: digits differ."""
    told = (each for each in member.profile.measurements if each.sitting == row.sitting)
    if _network(row) in map(_network, told):
        raise DataError("its profile has that row already")


def _network(row: Measurement) -> str:
    """Its layers as a file has them: what they are built of is not in it."""
    return json.dumps([layer.to_json() for layer in row.layers], sort_keys=True)


def tell_profiles(
    rows: Mapping[str, Sequence[Measurement]], files: Mapping[str, Path]
) -> list[str]:
    """Add rows to the members' profiles; those that are there already are left out.

    Raises:
        AmpereError: A profile cannot be written, or is of another device by now.
    """
    told = []
    for member, measured in rows.items():
        _, added = add_rows(files[member], measured)
        told.append(f"{plural(added, 'row')} of {member} added to {files[member]}")
    return told
