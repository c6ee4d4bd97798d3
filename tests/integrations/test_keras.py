"""Keras: a tiny model that is really trained, stopped by its budget, and resumed; two backends."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("keras") is None:
    pytest.skip("pip install 'ampere-energy[keras]'", allow_module_level=True)

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("case", ["resumed", "accumulated", "streamed"])
def test_it_trains(backend: str, case: str, tmp_path: Path) -> None:
    """In a process of its own: Keras takes its backend when it is imported."""
    if find_spec(backend) is None:
        pytest.skip(f"pip install {backend}")
    done = subprocess.run(
        [sys.executable, "-m", "integrations.keras_training", case, str(tmp_path)],
        cwd=TESTS,
        env={**os.environ, "KERAS_BACKEND": backend, "KERAS_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{backend} {case} ok"
    assert ("the run could not be saved" in done.stderr) is (case == "streamed")
