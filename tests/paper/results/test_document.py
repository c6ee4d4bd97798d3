"""A document as Markdown and as a report."""

from __future__ import annotations

from pathlib import Path

from ampere.core.page import Page
from ampere_paper.results.document import Chapter, Document, markdown_table

TABLE = Page("Errors", headers=("device", "MAPE %"), rows=[("TX2 | new", "1.0")], align="<>")


def test_tables_keep_their_columns() -> None:
    assert markdown_table(TABLE) == (
        "Errors:\n\n| device | MAPE % |\n|---|---:|\n| TX2 \\| new | 1.0 |"
    )


def test_both_forms_have_the_same_parts(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    figure = tmp_path / "figures" / "fig2"
    figure.with_suffix(".svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    chapter = Chapter("fig2: Stacks", "On a line.", "They are.", [figure], TABLE)
    document = Document("A run", "What it is.", [("machine", "here")], [chapter])
    text = document.markdown(tmp_path)
    parts = (
        "# A run",
        "What it is.",
        "- machine: here",
        "## fig2: Stacks",
        "> The paper: On a line.",
        "They are.",
        "![fig2: Stacks](figures/fig2.svg)",
        "| TX2 \\| new | 1.0 |",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    html = document.report().html()
    for part in ("A run", "fig2: Stacks", "On a line.", "They are.", "TX2 | new"):
        assert part in html
