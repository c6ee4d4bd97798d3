"""`examples/runner_mnn.py`: networks are measured with MNN and numpy alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ampere.core.description import describe
from programs.networks import family_layers

RUNNER = Path(__file__).parents[2] / "examples" / "runner_mnn.py"
WITHOUT = """
import runpy, sys

sys.modules["ampere"] = sys.modules["torch"] = None  # importing them is an error from now on
sys.argv = ["runner_mnn.py", sys.argv[2]]
runpy.run_path(RUNNER, run_name="__main__")
"""


def test_it_needs_mnn_and_numpy_and_nothing_else() -> None:
    tree = ast.parse(RUNNER.read_text(), feature_version=(3, 8))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
    }
    assert names - sys.stdlib_module_names == {"MNN", "numpy"}


def test_rows_come_back_with_joules_or_with_a_reason(tmp_path: Path) -> None:
    pytest.importorskip("MNN", reason="MNN is not installed: pip install 'ampere-energy[mnn]'")
    todo = tmp_path / "todo.jsonl"
    members = {"lenet5": {}, "resnet": {"widths": [4, 4, 8]}, "lstm": {}}
    rows = [
        {"name": name, "network": describe(family_layers(name, **arguments))}
        for name, arguments in members.items()
    ]
    todo.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code = WITHOUT.replace("RUNNER", repr(str(RUNNER)))
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "-", str(todo)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lenet, resnet, lstm = map(json.loads, done.stdout.splitlines())
    assert lenet["energy_j_per_step"] > 0 and lenet["time_s_per_step"] > 0
    assert resnet["time_s_per_step"] > 0
    assert lstm["failed"] == "AssertionError: one input of float32"
