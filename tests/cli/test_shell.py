"""The shell of every command: what goes wrong is a line, and where each line goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ampere.cli.shell import BROKEN_PIPE, hint, json_text, say
from ampere.cli.verbosity import Verbosity, speaking
from cli.runner import answer, layers_file, run
from fakes import FakeDevice, plain_model


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


def test_quiet_leaves_hints_out_and_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with speaking(Verbosity.QUIET):
        hint("wrote it")
        say("warning: odd")
    hint("wrote it")
    assert capsys.readouterr().err.splitlines() == ["warning: odd", "wrote it"]


def test_options_before_the_command_say_how_much_is_told(device: FakeDevice) -> None:
    usual, quiet = run("check"), run("--quiet", "check")
    assert "19/19 done" in usual.stderr
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert "quiet     yes" in quiet.stdout
    told = run("--verbose", "check").stderr.splitlines()
    assert len(told) > len(usual.stderr.splitlines())
    assert run("check").stderr  # as usual again


@pytest.mark.parametrize(("package", "extra"), [("flax.nnx", "jax"), ("torch.nowhere", "torch")])
def test_a_model_that_lacks_its_framework_is_told_the_extra(
    tmp_path: Path, package: str, extra: str
) -> None:
    model = tmp_path / "lacking.py"
    model.write_text(f"raise ModuleNotFoundError('No module {package}', name='{package}')")
    result = run("layers", f"{model}:net", "--input", "3x8x8")
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 1
    assert line.endswith(f"; pip install 'ampere-energy[{extra}]' brings it")


def test_what_is_said_of_all_commands_may_be_said_after_them(net: Path) -> None:
    result = run("layers", "net.py:raises", "--debug")
    assert "Traceback (most recent call last)" in result.stderr
    both = run("--quiet", "layers", "net.py:raises", "--verbose")
    assert both.exit_code == 2
    assert "give either --quiet or --verbose" in both.stderr


@pytest.mark.parametrize("option", ["--debug", "--quiet", "--verbose"])
def test_an_option_of_a_program_is_not_taken_from_it(option: str) -> None:
    ours = run("run", "--budget", "none", option, "python", "train.py")
    theirs = run("run", "--budget", "none", "python", "train.py", option)
    assert (ours.exit_code, theirs.exit_code) == (1, 2)
    assert "is no budget" in ours.stderr
    assert f"No such option: {option}" in theirs.stderr
