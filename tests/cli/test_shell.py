"""The shell of every command: what goes wrong is a line, and where each line goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ampere.cli.shell import BROKEN_PIPE, json_text
from cli.runner import answer, layers_file, run
from fakes import plain_model


def test_a_torn_profile_is_a_warning_in_a_line(told: Path, tmp_path: Path) -> None:
    told.write_bytes(told.read_bytes()[:-20])
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16))
    result = run("estimate", "--profile", told, "--layers", layers, "--json")
    assert answer(result)["steps"] == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: ")
    assert "last line is torn" in line


def test_debug_shows_the_traceback(net: Path) -> None:
    result = run("--debug", "layers", "net.py:raises")
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: net.py:raises raises RuntimeError")


def test_a_closed_pipe_is_silent() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "ampere", "meters"]
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, timeout=240)
    os.close(writer)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, b"")


def test_numbers_that_are_not_known_are_null() -> None:
    text = json_text({"a": [float("nan"), (float("inf"), 1.5)], "b": {"c": None, "d": "×"}})
    assert json.loads(text) == {"a": [None, [None, 1.5]], "b": {"c": None, "d": "×"}}
    assert "\n" not in text
