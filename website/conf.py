"""Settings of the site: Sphinx makes it of the same Markdown that the repository shows.

The order of pages stands here and not in the pages, so that these are plain Markdown everywhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
version_line = re.search(
    r'__version__ = "(.+)"', (ROOT / "src" / "ampere" / "__init__.py").read_text(encoding="utf-8")
)
project = "ampere"
author = "the authors of ampere"
release = version_line[1] if version_line else ""

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["paper/tables/**", "paper/journals/**", "paper/data/**"]
myst_heading_anchors = 6  # as GitHub makes them
suppress_warnings = ["misc.highlighting_failure"]  # JSON with "..." in it, for people
language = "en"
smartquotes = False

html_theme = "furo"
pygments_dark_style = "github-dark"  # furo's own underlines names of modules like links
html_title = f"ampere {release}"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["ampere.css"]
html_theme_options: dict[str, Any] = {
    "light_css_variables": {"color-brand-primary": "#005f99", "color-brand-content": "#005f99"},
    "dark_css_variables": {"color-brand-primary": "#6cc0f5", "color-brand-content": "#6cc0f5"},
}

PARTS = {
    "Tutorials": (
        "start tutorials/own-model tutorials/laptop tutorials/jetson tutorials/phone"
        " tutorials/prune tutorials/gate tutorials/fleet"
    ),
    "How-tos": (
        "install versions ways commands devices meters library shared-profiles plain-data reading"
        " jobs survey frameworks carbon report"
        " pruning searching gates integrations tracking watch fleet fleet-dask flower"
    ),
    "Explanations": (
        "method additive measuring joules simulated results reproducing security comparison"
    ),
    "Reference": "reference/commands reference/api reference/files reference/errors journal",
    "Tables": (
        "paper/index paper/accuracy paper/published paper/recorded paper/transfer paper/pruning"
        " paper/search paper/measuring paper/reading paper/frameworks paper/simulated paper/gating"
        " paper/stages paper/fleet paper/speed"
    ),
    "For who changes it": "architecture contributing",
}
# Links to folders, and out of the docs into the repository: the site cannot follow.
REPOSITORY = re.compile(
    r"\[([^\]]+)\]\((?:(?:\.\./)+(?:(?:paper/)?[A-Z_]+\.md|examples/[\w/]+\.ipynb)"
    r"|journals|paper)/?\)"
)


def contents() -> str:
    """All pages in their order, hidden on the first page and drawn at the side."""
    listed = {page for pages in PARTS.values() for page in pages.split()}
    there = {
        path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
        if "tables" not in path.parts
    }
    new = sorted(there - listed - {"index"})  # a page that nobody has put in its place yet
    parts = {**PARTS, **({"More": " ".join(new)} if new else {})}
    return "".join(
        f"\n\n```{{toctree}}\n:hidden:\n:caption: {part}\n\n" + "\n".join(pages.split()) + "\n```"
        for part, pages in parts.items()
    )


def prepare(app: Any, name: str, source: list[str]) -> None:
    """What only the site needs is added as a page is read."""
    source[0] = REPOSITORY.sub(r"\1", source[0])
    if name == "index":
        source[0] += contents()


def setup(app: Any) -> dict[str, bool]:
    """For Sphinx."""
    app.connect("source-read", prepare)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
