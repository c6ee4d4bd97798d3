"""What MNN can train, as docs/frameworks.md says it: written from the table of operations."""

from __future__ import annotations

import os
from pathlib import Path

from ampere.mnn.operations.registry import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
BEGIN, END = "<!-- operations of mnn: begin -->", "<!-- operations of mnn: end -->"


def shown(names: tuple[str, ...]) -> str:
    """Modules and functions; methods that only operators call are left out."""
    return ", ".join(f"`{name}`" for name in names if not name.startswith("__"))


def table() -> str:
    rows = ["| family | of torch | in MNN | refused |", "|---|---|---|---|"]
    for family in FAMILIES:
        name = family.__name__.rpartition(".")[2]
        for operation in family.OPERATIONS:
            listed = shown(operation.names)
            if listed:
                rows.append(f"| {name} | {listed} | {operation.how} | {operation.except_for} |")
    return "\n".join(rows)


def test_the_page_has_the_table_of_operations() -> None:
    words = PAGE.read_text(encoding="utf-8")
    head, _, rest = words.partition(BEGIN)
    _, _, tail = rest.partition(END)
    page = f"{head}{BEGIN}\n{table()}\n{END}{tail}"
    if "UPDATE_GOLDEN" in os.environ:
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page
