"""What the pages say is there: their links, the files and the public names that they mention."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "paper" / "README.md", *(ROOT / "docs").rglob("*.md")],
)
FENCE = re.compile(r"```.*?```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|json|md|toml))`")
NAME = re.compile(r"(?<![\w./])ampere(?:_paper)?(?:\.[A-Za-z_]\w*)+")
# Files that a command of the page writes, or that a reader is told to write.
TO_BE_WRITTEN = {
    "docs/paper/index.html",
    "half/widths.json",
    "meters/drivers/NAME.py",
    "src/ampere/meters/drivers/NAME.py",
    "src/ampere/meters/drivers/plug.py",
    "tests/meters/test_plug.py",
}
ENTRY_POINTS = {"ampere.commands", "ampere.meters", "ampere.sinks"}
ROOMS = ["benchmarks", "docs", "examples", "paper", "src", "tests", "website"]
FILES = [path.as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.*")]


def anchor(heading: str) -> str:
    """As GitHub makes it: small letters, hyphens for blanks, no other marks."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def is_there(dotted: str) -> bool:
    """Whether a module, or something in one, has this name."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("ampere"):
                return True  # an integration whose library is not here: tests/integrations has it
            continue
        for part in parts[length:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if link.startswith(("https://", "http://")):
            continue
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if place and target.suffix == ".md":
            assert place in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_is_there(page: Path) -> None:
    for name in set(FILE.findall(page.read_text(encoding="utf-8"))) - TO_BE_WRITTEN:
        assert any(path.endswith(f"/{name}") for path in FILES), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_of_ampere_is_there(page: Path) -> None:
    """In sentences and in examples: `ampere.pytorch.models.resize`, `ampere.Training`."""
    for name in set(NAME.findall(page.read_text(encoding="utf-8"))) - ENTRY_POINTS:
        assert is_there(name), name


def test_packages_are_installed_by_the_name_of_the_distribution() -> None:
    """On the package index, `ampere` is another project."""
    for page in PAGES:
        for command in re.findall(r"pip install [^`\n&;]+", page.read_text(encoding="utf-8")):
            assert not re.search(r"(?<![\w-])ampere(?![\w-])", command), (page.name, command)
