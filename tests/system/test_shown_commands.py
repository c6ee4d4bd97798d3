"""Every command of ampere that a page shows is one: its options are there, its values are taken."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import typer

from ampere.cli.app import app
from pages import ROOT, arguments, shown_commands

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
# Of another distribution; of a package that the page makes up; whatever stands for anything.
OTHERS = ("reproduce", "price", "COMMAND")


def commands() -> list[tuple[Path, str]]:
    return [(page, line) for page in PAGES for line in shown_commands(page)]


@functools.cache
def application() -> Any:
    return typer.main.get_command(app)


def parsed(words: list[str]) -> Any:
    """The context of a command that is not run."""
    command: Any = application()
    while hasattr(command, "commands"):
        if not words or words[0].startswith("-"):  # ampere --help
            return None
        name, *words = words
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    return command.make_context(command.name, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_its_commands_can_be_typed(page: Path) -> None:
    for line in shown_commands(page):
        _, *words = arguments(line)
        if (words and words[0] in OTHERS) or "..." in words:
            continue
        try:
            parsed(words)
        except Exception as error:
            pytest.fail(f"{line}: {error}")


def test_there_are_many() -> None:
    assert len(commands()) > 100
