"""Notebooks run from top to bottom in a fresh process, as a reader would run them, without Jupyter.

They profile this machine; here a simulated device stands in, which nobody else keeps busy.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pages import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
INSTEAD = {'DEVICE = "local"': 'DEVICE = "simulated:oppo"'}
RUN = """
import ast, json, sys

names = {"__name__": "__main__"}
shown = []
for number, source in enumerate(json.load(sys.stdin)):
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        if value is None:  # a call that prints
            continue
        html = getattr(value, "_repr_html_", None)
        shown.append([repr(value), None if html is None else html()])
json.dump(shown, open(sys.argv[1], "w"))
"""


def cells(path: Path, kind: str = "code") -> list[str]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def run(path: Path, folder: Path) -> list[Any]:
    """What the cells of a notebook show: the text and the HTML of their last expressions."""
    sources = cells(path)
    assert sum(old in source for source in sources for old in INSTEAD) == len(INSTEAD)
    for old, new in INSTEAD.items():
        sources = [source.replace(old, new) for source in sources]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder / "shown.json")],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    shown: list[Any] = json.loads((folder / "shown.json").read_text())
    return shown


def test_there_are_two() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_estimate", "search_and_pruning"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs_and_in_the_format_of_notebooks(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        assert isinstance(cell["metadata"], dict)
        assert all(isinstance(line, str) for line in cell["source"])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
        else:
            assert cell["cell_type"] == "markdown"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_needs_nothing_but_the_public_names(path: Path) -> None:
    for node in ast.walk(ast.parse("\n".join(cells(path)))):
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] != "ampere"
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("ampere.") for alias in node.names)


def test_the_first_estimate_runs(tmp_path: Path) -> None:
    shown = run(NOTEBOOKS[0], tmp_path)
    layers, profile, estimate, candidates = shown
    assert layers[0].startswith("3 layers")
    assert profile[0].startswith("Profile of ") and ", fed 1x8x8" in profile[0]
    assert estimate[0].startswith("2,000 training steps: ")
    assert "joules are simulated, not measured" in candidates[0]
    assert all("linear-gradient" in html for _, html in shown)


def test_search_and_pruning_run(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    shown = run(NOTEBOOKS[1], tmp_path)
    profile, tables, _, slopes, pruning, files = (text for text, _ in shown)
    assert profile.startswith("Profile of ")
    assert tables.startswith("Tables of 1,152 members of a family")
    assert slopes.startswith("{'0.out': ")
    assert pruning.startswith("Sequential, cut to 60%: ")
    assert "where nothing was fine-tuned" in pruning
    assert files == "['model.py', 'model.safetensors', 'widths.json']"
