"""The reference in docs/reference is what the code says: `make reference` writes it anew."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "website"))

import reference  # noqa: E402
import sources  # noqa: E402


@pytest.mark.parametrize("name", reference.WRITERS)
def test_a_page_is_what_the_code_says(name: str) -> None:
    kept = (reference.PAGES / name).read_text(encoding="utf-8")
    assert kept == reference.WRITERS[name](), "the code has changed: make reference"


def test_no_other_page_stands_there() -> None:
    assert {path.name for path in reference.PAGES.iterdir()} == set(reference.WRITERS)


def test_a_signature_is_as_it_was_written() -> None:
    code = "def f(self, a: int, /, b='x', *rest, c: float = 1, **more) -> str: ..."
    (function,) = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef)
    told = "f(a: int, b='x', *rest, c: float = 1, **more) -> str"
    assert sources.signature("f", function) == told


def test_sections_of_a_docstring_become_lists() -> None:
    code = 'def f():\n    """One.\n\n    Args:\n        a: First,\n            and on.\n    """'
    (function,) = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef)
    assert reference.prose(function) == "One.\n\n\nArgs:\n\n- `a`: First,\n  and on."
