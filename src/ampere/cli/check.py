"""`ampere check`: is this machine fit for measuring?"""

from __future__ import annotations

from contextlib import closing

from ampere.cli.command import Command
from ampere.cli.options import AsJson, Care, Machine
from ampere.cli.progress import progress
from ampere.cli.shell import json_text


def check(machine: Machine = Machine(), care: Care = Care(), as_json: AsJson = False) -> str:
    """See whether this machine is fit for measuring.

    Whether it is quiet enough to measure, and whether the energy of layers adds up on it.
    """
    from ampere import _api

    with closing(machine.open()) as device, progress() as watch:
        verdicts = _api.check(device=device, effort=care.effort(), watch=watch)
    return json_text(verdicts.to_json()) if as_json else repr(verdicts)


CHECK = Command(check, "ampere check --threads 1")
