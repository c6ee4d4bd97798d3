"""`examples/runner_mnn.py`: networks are measured with MNN and numpy alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from ampere.core.description import describe
from programs.networks import family_layers, layers_of

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


# What MNN would train wrongly, or die of, with what is said of it.
WRONG = {
    "grouped": (nn.Conv2d(8, 4, 3, groups=4), "Conv2d in call 0: 4 groups"),
    "same": (nn.Conv2d(8, 4, 3, padding="same"), "Conv2d in call 0: its padding is a word"),
    "plain": (
        nn.Sequential(nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4, affine=False)),
        "it has no scale",
    ),
    "momentary": (
        nn.Sequential(nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)),
        "BatchNorm2d in call 1: it has no scale, or keeps no statistics",
    ),
}


def behind(module: nn.Module) -> dict[str, Any]:
    """A description of a classifier that begins with a module."""
    model = nn.Sequential(module, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    return describe(layers_of(model, "8x8x8"))


def test_rows_come_back_with_joules_or_with_a_reason(tmp_path: Path) -> None:
    pytest.importorskip("MNN", reason="MNN is not installed: pip install 'ampere-energy[mnn]'")
    todo = tmp_path / "todo.jsonl"
    members = {"lstm": {}, "lenet5": {}, "resnet": {"widths": [4, 4, 8]}}
    networks = {name: behind(module) for name, (module, _) in WRONG.items()}
    networks |= {name: describe(family_layers(name, **given)) for name, given in members.items()}
    rows = [{"name": name, "network": network} for name, network in networks.items()]
    todo.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code = WITHOUT.replace("RUNNER", repr(str(RUNNER)))
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "-", str(todo)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert list(told) == list(networks)
    for name, (_, reason) in WRONG.items():
        assert reason in told[name]["failed"]
    assert told["lstm"]["failed"] == "AssertionError: one input of float32"
    for name in ("lenet5", "resnet"):
        assert told[name]["energy_j_per_step"] > 0 and told[name]["time_s_per_step"] > 0
