"""Command: what `ampere NAME` runs, ours or another package's.

One of ours stands at the end of its file and in the list of `ampere.cli.app`.

A package adds a command by an entry point of the group `ampere.commands` that names a `Command`,
which is called what its function is called:

    [project.entry-points."ampere.commands"]
    reproduce = "ampere_paper.command:REPRODUCE"
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from ampere.cli.shell import say

GROUP = "ampere.commands"


@dataclass(frozen=True)
class Command:
    """A function whose signature is the command line and whose result is printed."""

    run: Callable[..., str]
    example: str

    @property
    def name(self) -> str:
        """As it is typed: an underscore at the end only keeps a word of Python free."""
        return self.run.__name__.rstrip("_")


@dataclass(frozen=True)
class Group:
    """Commands on one subject: `ampere NAME VERB`."""

    name: str
    summary: str
    commands: tuple[Command, ...]


def installed_commands(taken: Iterable[str] = ()) -> Iterator[Command]:
    """Commands of other packages; one that cannot be had is told in a line and left out.

    Args:
        taken: Names of commands that are there already: no package replaces one of them.
    """
    names = set(taken)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            command = entry.load()
        except Exception as error:  # whatever another package does as it is imported
            say(f"warning: the command {entry.name} ({entry.value}) cannot be loaded: {error}")
            continue
        if not isinstance(command, Command):
            say(f"warning: {entry.value} is not an ampere.cli.command.Command: left out")
        elif command.name in names:
            say(
                f"warning: the command {command.name} ({entry.value}) is left out: there is one of"
                " that name"
            )
        else:
            names.add(command.name)
            yield command


def flat(command: Callable[..., str]) -> Callable[..., str]:
    """Let a command take dataclasses: their fields become options of its own."""
    groups: dict[str, Any] = {
        name: hint for name, hint in get_type_hints(command).items() if is_dataclass(hint)
    }
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = groups.get(parameter.name)
        hints = get_type_hints(group, include_extras=True) if group else {}
        parameters += [
            inspect.Parameter(
                field.name, parameter.kind, default=field.default, annotation=hints[field.name]
            )
            for field in (fields(group) if group else ())
        ] or [parameter]

    @functools.wraps(command)
    def wrapped(**values: Any) -> str:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped
