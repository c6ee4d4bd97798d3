"""What JAX covers, as docs/frameworks.md says it: written from the registries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("flax.nnx", reason="needs JAX: pip install 'ampere-energy[jax]'")

from ampere.jax.graph.registry import RECORDS, ModuleRecord
from ampere.jax.graph.rules import ELEMENTWISE, REDUCTIONS, RULES, WINDOWS
from ampere.jax.runtime.translation import dense, functions, maps, sequences

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
FAMILIES = {
    "products, tables, normalisation": dense,
    "maps": maps,
    "sequences and attention": sequences,
    "shapes, arithmetic, curves": functions,
}


def shown(names: object) -> str:
    """Names in their order; methods that only operators call are left out."""
    return ", ".join(f"`{name}`" for name in names if not name.startswith("__"))  # type: ignore[attr-defined]


def is_to_layers(record: ModuleRecord) -> str:
    if record.core:
        return "a layer is made around it"
    return "joins the layer before it, the last one the head" if record.normalises else "joins"


def modules_read() -> str:
    rows = ["| module of flax.nnx | what it is to layers |", "|---|---|"]
    rows += [f"| `{name}` | {is_to_layers(record)} |" for name, record in RECORDS.items()]
    listed = sorted({*ELEMENTWISE, *REDUCTIONS, *WINDOWS, *RULES})
    return "\n".join([*rows, "", f"Widths pass through these primitives: {shown(listed)}."])


def translated() -> str:
    rows = ["| family | modules of torch | functions and methods |", "|---|---|---|"]
    for name, family in FAMILIES.items():
        rows.append(f"| {name} | {shown(family.MODULES)} | {shown(family.FUNCTIONS)} |")
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("part", "text"),
    [("modules that are read", modules_read), ("operations of jax", translated)],
    ids=["read", "translated"],
)
def test_the_page_has_what_the_registries_have(part: str, text: object) -> None:
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, tail = rest.partition(end)
    page = f"{head}{begin}\n{text()}\n{end}{tail}"  # type: ignore[operator]
    if "UPDATE_GOLDEN" in os.environ:
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page
