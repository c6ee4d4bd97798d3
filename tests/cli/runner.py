"""The command line in this process or one of its own, and what it answered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ampere.cli.app import app
from ampere.core.layers import Layer


def run(*arguments: object, input: str | None = None) -> Result:
    """A command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=input)


def ampere_process(*arguments: object, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    line = [sys.executable, "-m", "ampere", *(str(each) for each in arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=240, **keywords)


def answer(result: Result) -> Any:
    """What a command printed as JSON: nothing else may stand beside it."""
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    return json.loads(line, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


def last_line(result: Result | subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in result.stderr
    return str(result.stderr.splitlines()[-1])


def layers_file(path: Path, layers: Sequence[Layer]) -> Path:
    path.write_text("\n".join(json.dumps(layer.to_json()) for layer in layers))
    return path


def check_bad_line(line: str, code: int, says: str) -> None:
    """What is wrong is said in one line, and nothing is answered."""
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert says in last_line(result)
    if code == 1:
        errors = [each for each in result.stderr.splitlines() if each.startswith("error: ")]
        assert errors == [last_line(result)]
