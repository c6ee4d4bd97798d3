"""Command: what `ampere NAME` runs, ours or another package's.

A package adds a command by an entry point of the group `ampere.commands` that names a `Command`:

    [project.entry-points."ampere.commands"]
    reproduce = "ampere_paper.command:REPRODUCE"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points

from ampere.cli.shell import say

GROUP = "ampere.commands"


@dataclass(frozen=True)
class Command:
    """A function whose signature is the command line and whose result is printed."""

    run: Callable[..., str]
    example: str

    @property
    def name(self) -> str:
        """As it is typed."""
        return self.run.__name__


def installed_commands() -> Iterator[Command]:
    """Commands of other packages; one that cannot be loaded is told in a line and left out."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            command = entry.load()
        except Exception as error:  # whatever another package does as it is imported
            say(f"warning: the command {entry.name} ({entry.value}) cannot be loaded: {error}")
            continue
        if isinstance(command, Command):
            yield command
        else:
            say(f"warning: {entry.value} is not an ampere.cli.command.Command: left out")
