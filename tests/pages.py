"""Pages that a reader follows: their blocks, taken from the Markdown and run from top to bottom.

    ```sh       a command a line
    ```python   run in one session; with a first line `# name.py` it is a file to be saved
    ```toml     with a first line `# name.toml`, a file to be saved

Blocks of other languages, and indented ones, are shown and not run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TUTORIALS = (DOCS / "start.md", *sorted((DOCS / "tutorials").glob("*.md")))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w-]+\.\w+)\n")
DRAWN = re.compile(r"\S {3,}[^#\s]")  # words with room between them: a drawing, no command
RUN = ("sh", "python", "toml")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that it is, if it is one."""
        named = NAMED.match(self.text)
        return named[1] if named and self.language in ("python", "toml") else None

    @property
    def commands(self) -> list[str]:
        """Lines of a shell, without what is only said."""
        return [line for line in self.text.splitlines() if line and not line.startswith("#")]


def blocks(page: Path, languages: tuple[str, ...] = RUN) -> list[Block]:
    """The blocks of a page that are run or saved."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in BLOCK.finditer(text)
        if found[1] in languages
    ]


def shown_commands(page: Path) -> Iterator[str]:
    """Every command of ampere in any block of a page, run or only shown."""
    text = page.read_text(encoding="utf-8")
    fenced = [found[2] for found in BLOCK.finditer(text) if found[1] in ("", "sh", "console")]
    indented = re.findall(r"(?:^    .*\n)+", BLOCK.sub("", text), re.MULTILINE)
    for block in (*fenced, *indented):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|(?<!\|)\|(?!\|)", line.strip().removeprefix("$ ")):
                if part.strip().startswith("ampere ") and not DRAWN.search(part.strip()):
                    yield part.strip()


def arguments(command: str) -> list[str]:
    """The words of a command, without a comment and without where its output goes."""
    words = shlex.split(command, comments=True)
    return words[: words.index(">")] if ">" in words else words
