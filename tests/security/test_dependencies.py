"""docs/security.md has looked through every dependency, at the bound that it has now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = re.sub(r"\(was [^)]*\)", "", PAGE.split("\n## Dependencies\n")[1].split("\n## ")[0])
ROWS = [line.split(" | ") for line in SECTION.splitlines() if line.startswith("| ")]
REQUIREMENT = re.compile(r'"([a-z][\w-]*)>=([\d.]+)')


def bounds() -> list[tuple[str, str]]:
    """Packages and lower bounds: of the library, its extras, the paper, and of building them."""
    projects = (ROOT / "pyproject.toml", ROOT / "paper" / "pyproject.toml")
    texts = (path.read_text(encoding="utf-8").split("[tool.")[0] for path in projects)
    return sorted({pair for text in texts for pair in REQUIREMENT.findall(text)})


def test_the_bounds_are_found() -> None:
    assert {"numpy", "torch", "pillow", "pytest", "matplotlib", "hatchling"} <= dict(
        bounds()
    ).keys()


@pytest.mark.parametrize(("name", "bound"), bounds())
def test_a_dependency_has_been_looked_through(name: str, bound: str) -> None:
    (row,) = [row for row in ROWS if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", row[0])]
    assert row[1] == "as they were" or re.search(rf"(?<![\d.]){re.escape(bound)}(?![\d.])", row[1])
