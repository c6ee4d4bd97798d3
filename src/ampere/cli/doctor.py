"""`ampere doctor`: what this machine has, and what is missing."""

from __future__ import annotations

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.shell import Answer, json_text


def doctor(as_json: AsJson = False) -> str:
    """Look whether this machine has what ampere needs.

    Versions, the meter that is taken, runtimes, ways to other devices, what else runs right now and
    free disk: a line each, with what to do. The exit code is 1 if something must be fixed.
    """
    from ampere.evaluation.checkup import examine

    found = examine()
    text = json_text(found.to_json()) if as_json else repr(found)
    return Answer(text, 1 if found.to_fix else 0)


DOCTOR = Command(doctor, "ampere doctor")
