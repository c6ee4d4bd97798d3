"""`ampere runtimes`: who can train here, and what the rest would take."""

from __future__ import annotations

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.shell import json_text
from ampere.core.page import Page


def runtimes(as_json: AsJson = False) -> str:
    """List the runtimes: who trains models on this machine.

    Which of them are installed, and what it takes to install the others. Measuring commands take
    one by --runtime; a device far away has its own.
    """
    from ampere.frameworks.runtimes import RUNTIMES

    entries = list(RUNTIMES.values())
    if as_json:
        return json_text({"runtimes": [entry.to_json() for entry in entries]})
    rows = [
        (
            entry.name,
            entry.version or "not installed",
            ", ".join(entry.stages),
            ", ".join(entry.dialects),
            "" if entry.version else entry.remedy,
        )
        for entry in entries
    ]
    return Page(
        title="Runtimes of this machine",
        headers=("runtime", "version", "stages", "models of", ""),
        rows=rows,
        align="<<<<<",
        facts=[("more", "docs/frameworks.md has what each of them can train")],
    ).text()


RUNTIMES = Command(runtimes, "ampere runtimes")
